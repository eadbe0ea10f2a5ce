"""A member of a classic group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tailrace.coordination.group_records import MemberMetadata
from tailrace.errors import ErrorCode
from tailrace.state import Token
from tailrace_coordinator.groups.group import DescribedMember

Protocols = tuple[tuple[str, bytes], ...]  # (name, metadata) in the member's order of preference

_PROTOCOL_BYTES = 100  # what a protocol of short name and no metadata takes


class JoinedMember(NamedTuple):
    """A member as the leader's JoinGroup answer has it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    """What a JoinGroupResponse says. The handler makes that of it: a group may have thousands of members."""

    error_code: ErrorCode
    member_id: str
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: Sequence[JoinedMember] = ()


class SyncAnswer(NamedTuple):
    """What a SyncGroupResponse says, likewise."""

    error_code: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(slots=True)
class Member:
    """One member; awaiting_join and awaiting_sync hold the asker whose answer is due."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    awaiting_join: Token | None = None
    awaiting_sync: Token | None = None
    is_new: bool = False

    def metadata(self, protocol: str | None) -> bytes:
        """Returns what the member says of itself under a protocol, empty when it does not speak it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: frozenset[str]) -> str:
        """Returns the first of its protocols that everybody speaks."""
        return next(name for name, _ in self.protocols if name in candidates)

    @property
    def metadata_size_bytes(self) -> int:
        """All that a client may make as long as it likes: ids and names, too, and protocols of no metadata."""
        texts = (self.member_id, self.group_instance_id or "", self.client_id, self.protocol_type)
        said = sum(_PROTOCOL_BYTES + len(name) + len(metadata) for name, metadata in self.protocols)
        return sum(map(len, texts)) + said

    @property
    def satisfies_heartbeat(self) -> bool:
        """Whoever waits for us need not be heard of; but a new member has no id yet and may be long gone."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def describe(self, protocol: str | None) -> DescribedMember:
        """Returns the member as clients see it; protocol None: there is no agreed one."""
        return DescribedMember(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.metadata(protocol),
            self.assignment,
        )

    def record(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        """Returns the member with this assignment as the log keeps it."""
        return MemberMetadata(
            self.member_id,
            self.group_instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            assignment,
        )
