"""A driver of the group machine that writes down what happens: requests, answers, records and the passing of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from support.consumer_groups import Consumer, ConsumerDriver, told
from support.groups import START_MS, Driver
from tailrace.coordination.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupRecordRemoved,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    TopicPartitions,
)
from tailrace.coordination.group_records import GroupMetadata, GroupRemoved, OffsetCommitted, OffsetRemoved, decode
from tailrace.errors import ApiError, ErrorCode
from tailrace.state import SHELL, Output
from tailrace.wire.messages import ConsumerGroupHeartbeatResponse
from tailrace_coordinator.groups.classic.member import JoinAnswer, SyncAnswer
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.modern.reconciliation import MemberState


class Traced(Driver):
    """Lines are `<ms> <who or what> <what happened>`; a member is called by the name its asker was given."""

    def __init__(self, config: GroupConfig | None = None, log: Any = ()) -> None:
        self.lines: list[str] = []
        self.askers: dict[int, str] = {}
        super().__init__(config, log)

    def say(self, line: str) -> None:
        self.lines.append(f"{self.now_ms - START_MS:>7} {line}")

    def asks(self, name: str, what: str) -> None:
        """Names the asker of the next request."""
        self.askers[self.token + 1] = name
        self.say(f"{name} -> {what}")

    def advance(self, delay_ms: int) -> None:
        self.say(f"... {delay_ms} ms pass")
        super().advance(delay_ms)

    def _take(self, output: Output) -> None:
        for key, value in output.append.records if output.append else ():
            record = decode(key, value)
            assert record is not None
            self.say(f"log: {_record(record)}")
        for token, answer in output.replies:
            if token != SHELL:
                self.say(f"{self.askers.get(token, '?')} <- {_answer(answer)}")
        super()._take(output)

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


class TracedConsumers(Traced, ConsumerDriver):
    """The same of a consumer group (KIP-848), whose members are called by their ids."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        self.lines = []
        self.askers = {}
        ConsumerDriver.__init__(self, topics)

    def says(self, member: Consumer, what: str) -> Consumer:
        """Names the asker of the next heartbeat."""
        self.asks(member.member_id, f"{what} in epoch {member.epoch}")
        return member


def _partitions(rows: Iterable[TopicPartitions]) -> str:
    names = ((row.topic_id.bytes.lstrip(b"\1").decode(), row.partitions) for row in rows)
    return " ".join(f"{name}-{index}" for name, indexes in names for index in indexes)


def _record(record: object) -> str:
    match record:
        case ConsumerGroupMetadata():
            return f"{record.group_id} group epoch {record.epoch}"
        case ConsumerGroupMemberMetadata():
            return f"{record.group_id} {record.member_id} subscribes to {' '.join(record.subscribed_topic_names)}"
        case ConsumerGroupTargetAssignmentMetadata():
            return f"{record.group_id} assignment epoch {record.assignment_epoch}"
        case ConsumerGroupTargetAssignmentMember():
            return f"{record.group_id} {record.member_id} is to have [{_partitions(record.topic_partitions)}]"
        case ConsumerGroupCurrentMemberAssignment():
            revoked = _partitions(record.partitions_pending_revocation)
            return (
                f"{record.group_id} {record.member_id} epoch {record.member_epoch} {MemberState(record.state).name} "
                f"[{_partitions(record.assigned_partitions)}]{f' gives up [{revoked}]' if revoked else ''}"
            )
        case ConsumerGroupRecordRemoved():
            return f"{record.group_id} {record.key.name or ''} key {record.key.key_type} removed"
        case GroupMetadata():
            members = " ".join(f"{m.member_id}={m.assignment.decode()!r}" for m in record.members)
            return f"{record.group_id} generation {record.generation_id} leader {record.leader} [{members}]"
        case OffsetCommitted():
            return f"{record.group_id} {record.topic}-{record.partition} at {record.offset}"
        case OffsetRemoved():
            return f"{record.group_id} {record.topic}-{record.partition} removed"
        case GroupRemoved():
            return f"{record.group_id} removed"
    raise TypeError(record)


def _answer(answer: Any) -> str:
    if isinstance(answer, ApiError):
        return answer.code.name
    if isinstance(answer, JoinAnswer):
        if answer.error_code:
            return f"{ErrorCode(answer.error_code).name} as {answer.member_id or '(none)'}"
        members = " ".join(member.member_id for member in answer.members)
        skip = ", skip the assignment" if answer.skip_assignment else ""
        return (
            f"{answer.member_id} joined generation {answer.generation_id} leader {answer.leader} "
            f"{answer.protocol_name} [{members}]{skip}"
        )
    if isinstance(answer, ConsumerGroupHeartbeatResponse):
        owned = told(answer)
        names = " ".join(f"{topic}-{index}" for topic, some in (owned or {}).items() for index in sorted(some))
        return f"epoch {answer.member_epoch}{'' if owned is None else f', owns [{names}]'}"
    if isinstance(answer, SyncAnswer):
        return ErrorCode(answer.error_code).name if answer.error_code else f"assigned {bytes(answer.assignment)!r}"
    if isinstance(answer, ErrorCode):
        return answer.name
    if isinstance(answer, tuple):
        return f"{answer[0].member_id or answer[0].group_instance_id}: {answer[1].name}"
    return ", ".join(_answer(each) for each in answer)
