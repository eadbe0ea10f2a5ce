"""The group machine under a clock of its own: commits at once unless told to hold, and keeps every answer."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from tailrace.coordination.group_records import decode, encode
from tailrace.errors import ApiError
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.state import SHELL, KeyValue, Output, Shard, ShardBatch, Sweep
from tailrace.wire.messages import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from tailrace_coordinator.groups.classic.group import ClassicGroup
from tailrace_coordinator.groups.classic.join import Join
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.decision import EXPIRY_KEY
from tailrace_coordinator.groups.group import Leaver
from tailrace_coordinator.groups.machine import GroupEffects, GroupMachine
from tailrace_coordinator.groups.offsets import CommitHeader, OffsetToCommit

START_MS = 1_700_000_000_000
RANGE = (("range", b"range-metadata"),)


def subscription(*topics: str) -> bytes:
    """A ConsumerProtocolSubscription v0."""
    names = b"".join(struct.pack(">h", len(topic.encode())) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


class Driver:
    """Asks the machine as a client would and lets time pass."""

    def __init__(
        self,
        config: GroupConfig | None = None,
        log: Sequence[KeyValue] = (),
        image: MetadataImage | None = None,
        now_ms: int = START_MS,
    ) -> None:
        self.image = image or MetadataImage()
        self.actions: list[Any] = []
        self.config = config or GroupConfig(group_initial_rebalance_delay_ms=0)
        self.now_ms = now_ms
        self.log: list[KeyValue] = list(log)
        self.answers: dict[int, Any] = {}
        self.token = 0
        self.hold = False
        self.in_flight: ShardBatch | None = None
        self.deadlines: dict[Hashable, int] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self.machine = GroupMachine(self.config)
        self.shard: Shard[Any] = Shard(self.machine, encode, max_batch_bytes=self.config.max_record_bytes)
        for key, value in self.log:
            record = decode(key, value)
            assert record is not None
            self.machine.apply(record)
        self._act(self.machine.on_loaded(self.now_ms, self.image))

    def reloaded(self) -> Driver:
        """The same log in a new coordinator, at the same time."""
        after = Driver(self.config, self.log, self.image)
        after.now_ms = self.now_ms
        return after

    def become(self, image: MetadataImage) -> None:
        """The machine hears of another image."""
        before, self.image = self.image, image
        self._act(self.machine.on_image(self.now_ms, MetadataDelta(before, image)))

    def classic(self, group_id: str) -> ClassicGroup:
        """A group of the classic protocol as it is now."""
        group = self.machine.groups.of_kind(ClassicGroup, group_id)
        assert group is not None
        return group

    # -- asking -----------------------------------------------------------------------------------------------------

    def join(
        self,
        group_id: str = "g",
        member_id: str = "",
        protocols: Sequence[tuple[str, bytes]] = RANGE,
        *,
        version: int = 9,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        instance: str | None = None,
        client_id: str = "client",
        protocol_type: str = "consumer",
    ) -> int:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols
            ],
        )
        token = self._next()
        join = Join(token, request, version, client_id, "/127.0.0.1", f"uuid{token}")
        return self._run(token, lambda: self.machine.join(self.now_ms, join))

    def joined(self, group_id: str = "g", **options: Any) -> tuple[str, int]:
        """Joins with the second request that v4 asks for; returns the member id and the token of the parked join."""
        first = self.answers[self.join(group_id, **options)]
        return first.member_id, self.join(group_id, first.member_id, **options)

    def sync(
        self,
        group_id: str,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> int:
        rows = [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=assignment)
            for member, assignment in (assignments or {}).items()
        ]
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=rows,
        )
        token = self._next()
        return self._run(token, lambda: self.machine.sync(self.now_ms, token, request, assignments or {}))

    def heartbeat(self, group_id: str, member_id: str, generation: int, instance: str | None = None) -> Any:
        request = HeartbeatRequest(
            group_id=group_id, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return self.ask(lambda token: self.machine.heartbeat(self.now_ms, token, request))

    def leave(self, group_id: str, *leavers: Leaver) -> Any:
        codes = self.ask(lambda token: self.machine.leave(self.now_ms, token, group_id, leavers))
        return list(zip(leavers, codes, strict=True)) if isinstance(codes, list) else codes

    def commit(self, request: CommitHeader, *positions: OffsetToCommit) -> Any:
        return self.ask(lambda token: self.machine.commit(self.now_ms, token, request, positions))

    def commit_as(
        self, group_id: str, member_id: str, generation: int, *positions: OffsetToCommit, version: int = 9
    ) -> Any:
        return self.commit(CommitHeader(group_id, generation, member_id, None, version), *positions)

    def fetch(self, group_id: str, *wanted: tuple[str, int]) -> Any:
        return self.ask(lambda token: self.machine.fetch_offsets(self.now_ms, token, group_id, wanted or None))

    def delete_offsets(self, group_id: str, *partitions: tuple[str, int]) -> Any:
        return self.ask(lambda token: self.machine.delete_offsets(self.now_ms, token, group_id, partitions))

    def delete_group(self, group_id: str) -> Any:
        while True:
            codes = self.ask(lambda token: self.machine.delete_groups(self.now_ms, token, [group_id]))
            if group_id in codes:
                return codes[group_id]

    def describe(self, group_id: str) -> Any:
        return self.ask(lambda token: self.machine.describe_groups(self.now_ms, token, [group_id]))[group_id]

    def list_groups(self, *states: str, types: Sequence[str] = ()) -> Any:
        return self.ask(lambda token: self.machine.list_groups(self.now_ms, token, frozenset(states), frozenset(types)))

    def expire(self) -> None:
        self._act(self.machine.on_timer(EXPIRY_KEY, self.now_ms))

    # -- time and the log -------------------------------------------------------------------------------------------

    def advance(self, delay_ms: int) -> None:
        """Lets time pass; fires what falls due, in order."""
        end_ms = self.now_ms + delay_ms
        while self._heap and self._heap[0][0] <= end_ms:
            at_ms, _, key = heapq.heappop(self._heap)
            if self.deadlines.get(key) != at_ms:
                continue
            del self.deadlines[key]
            self.now_ms = max(self.now_ms, at_ms)
            self._act(self.machine.on_timer(key, self.now_ms))
        self.now_ms = end_ms

    def release(self) -> None:
        """The append in flight, and those after it, are committed."""
        self.hold = False
        self._commit()

    def pending(self, token: int) -> bool:
        return token not in self.answers

    def _next(self) -> int:
        self.token += 1
        return self.token

    def ask(self, decide: Callable[[int], GroupEffects]) -> Any:
        """The answer of a request that is not parked; an ApiError's code for a refusal; None while the log is held."""
        token = self._run(self._next(), lambda: decide(self.token))
        answer = self.answers.get(token)
        return answer.code if isinstance(answer, ApiError) else answer

    def _run(self, token: int, decide: Callable[[], GroupEffects]) -> int:
        self.shard.admit()
        self._act(decide())
        return token

    def _act(self, decided: GroupEffects) -> None:
        self._take(self.shard.take(decided))

    def _take(self, output: Output) -> None:
        for timer in output.timers:
            if timer.delay_ms is None:
                self.deadlines.pop(timer.key, None)
            else:
                at_ms = self.now_ms + timer.delay_ms
                self.deadlines[timer.key] = at_ms
                heapq.heappush(self._heap, (at_ms, len(self._heap), timer.key))
        for token, answer in output.replies:
            if token == SHELL:
                if isinstance(answer, Sweep):
                    self._sweep(answer)
                else:
                    self.actions.append(answer)
                continue
            assert token not in self.answers, "answered twice"
            self.answers[token] = answer
        if output.append is not None:
            assert self.in_flight is None
            self.in_flight = output.append
            if not self.hold:
                self._commit()

    def _sweep(self, sweep: Sweep) -> None:
        for row in sweep.rows:
            self._act(sweep.decide(self.now_ms, row))

    def _commit(self) -> None:
        if self.in_flight is not None:
            self.log += self.in_flight.records
            self.in_flight = None
            self._take(self.shard.committed())


def member_of(driver: Driver, group_id: str = "g", *topics: str, **options: Any) -> str:
    """A stable group of one consumer of these topics."""
    member, token = driver.joined(group_id, protocols=(("range", subscription(*topics)),), **options)
    driver.advance(0)
    driver.sync(group_id, member, driver.answers[token].generation_id, {member: b"all"})
    return member
