"""Heartbeats of many groups (KIP-848), as bytes over a few connections: what they are answered, and when."""

from __future__ import annotations

import selectors
import sqlite3
import struct
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from support.groups import subscription
from support.raw import Raw, build, framed, request_header
from support.waiting import HUNG_S, until
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.net.address import Address
from tailrace.state import partition_for

HEARTBEAT: Final = 68
VERSION: Final = 1
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, CLASSIC_HEARTBEAT, SYNC_GROUP = 8, 9, 10, 11, 12, 14
AWAY: Final = (14, 15, 16)  # COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
_UNKNOWN_MEMBER_ID: Final = 25
_ERROR_AT: Final = 9  # behind the correlation id, the header's tagged fields and the throttle time
_AGAIN_S: Final = 0.02  # before a group that was refused is asked again


@dataclass
class Member:
    """One member of a group; `frame` is its heartbeat."""

    group_id: str
    member_id: str
    epoch: int
    frame: bytes


def beat(group_id: str, member_id: str, epoch: int, **fields: Any) -> Any:
    """A heartbeat; without more fields one that tells nothing new."""
    nothing: dict[str, Any] = dict.fromkeys(
        ("instance_id", "rack_id", "subscribed_topic_names", "subscribed_topic_regex", "server_assignor")
    )
    said = {**nothing, "rebalance_timeout_ms": -1, "topic_partitions": None, **fields}
    return build(HEARTBEAT, group_id=group_id, member_id=member_id, member_epoch=epoch, **said)


def member(group_id: str, member_id: str, epoch: int) -> Member:
    """A member as it is in its epoch."""
    return _member(group_id, member_id, epoch, beat(group_id, member_id, epoch), VERSION)


def _member(group_id: str, member_id: str, epoch: int, heartbeat: Any, version: int) -> Member:
    header = request_header(type(heartbeat).API_KEY, version, 1, "beats", flexible=True)
    return Member(group_id, member_id, epoch, framed(header + heartbeat.encode(version=version)))


def join(raw: Raw, group_id: str, member_id: str, topics: Sequence[str]) -> Member:
    """Joins, and returns the member in its first epoch."""
    first = beat(
        group_id,
        member_id,
        0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=list(topics),
        topic_partitions=[],
    )
    answer = until(lambda: _unless_away(raw.ask(first, VERSION)), f"a member of {group_id} joins")
    assert not answer.error_code, answer
    return member(group_id, member_id, answer.member_epoch)


def join_classic(raw: Raw, group_id: str, *topics: str) -> Member:
    """Joins by the classic protocol, as the only member, and returns it in its generation."""
    protocols = [{"name": "range", "metadata": subscription(*topics)}]
    asked = {"group_id": group_id, "session_timeout_ms": 600_000, "rebalance_timeout_ms": 60_000}
    asked |= {"group_instance_id": None, "protocol_type": "consumer", "protocols": protocols, "reason": None}

    def answered(member_id: str) -> Any:
        request = build(JOIN_GROUP, member_id=member_id, **asked)
        return until(lambda: _unless_away(raw.ask(request, 9)), f"a member of {group_id} joins")

    def entered() -> Member | None:
        """None where the group went to another coordinator in the middle: it knows no member without its share."""
        joined = answered(answered("").member_id)
        if joined.error_code == _UNKNOWN_MEMBER_ID:
            return None
        assert not joined.error_code, joined
        who = {"group_id": group_id, "generation_id": joined.generation_id, "member_id": joined.member_id}
        who["group_instance_id"] = None
        share = [{"member_id": joined.member_id, "assignment": b""}]
        named = {"protocol_type": "consumer", "protocol_name": "range"}
        synced = raw.ask(build(SYNC_GROUP, **who, **named, assignments=share), 5)
        if synced.error_code in (*AWAY, _UNKNOWN_MEMBER_ID):
            return None
        assert not synced.error_code, synced
        return _member(group_id, joined.member_id, joined.generation_id, build(CLASSIC_HEARTBEAT, **who), 4)

    return until(entered, f"the member of {group_id} is alone in it")


def owners(data_dir: Path) -> dict[int, int]:
    """The coordinator of each shard of groups, by the metadata of a cluster of `up`."""
    with closing(sqlite3.connect(data_dir / "metadata.db")) as database:
        rows = database.execute("select partition_id, owner from shards where topic = ?", (GROUP_METADATA_TOPIC,))
        return dict(rows.fetchall())


def are_spread(data_dir: Path, coordinators: Collection[int]) -> bool:
    """Whether the coordinators have equal numbers of shards."""
    counts = Counter(owners(data_dir).values())
    return counts.keys() == set(coordinators) and max(counts.values()) - min(counts.values()) <= 1


def _unless_away(answer: Any) -> Any:
    """The answer, unless there is no coordinator at the moment."""
    return None if answer.error_code in AWAY else answer


def make_topic(raw: Raw) -> None:
    """Has the topic of groups made, as a client does that looks for its coordinator."""
    raw.ask(build(FIND_COORDINATOR, key_type=0, coordinator_keys=["any"]), 4)


def commit(raw: Raw, members: Sequence[Member], topic: str, offset: int) -> None:
    """Commits an offset of a topic's only partition for the group of each member, again where no coordinator is."""
    topics = [
        {
            "name": topic,
            "partitions": [{"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}],
        }
    ]
    left = [
        build(
            OFFSET_COMMIT,
            group_id=each.group_id,
            generation_id_or_member_epoch=each.epoch,
            member_id=each.member_id,
            topics=topics,
        )
        for each in members
    ]

    def taken() -> bool:
        sent = [(request, raw.send(request, 9)) for request in left]
        left.clear()
        for request, number in sent:
            code = raw.receive(OFFSET_COMMIT, 9, number).topics[0].partitions[0].error_code
            assert not code or code in AWAY, code
            left.extend([request] if code else [])
        return not left

    until(taken, "the commits of all groups")


def committed(raw: Raw, members: Sequence[Member], topic: str) -> list[int]:
    """The offset of the group of each member."""
    wanted = [{"name": topic, "partition_indexes": [0]}]
    groups = [{"group_id": each.group_id, "member_id": None, "member_epoch": -1, "topics": wanted} for each in members]
    request = build(OFFSET_FETCH, groups=groups, require_stable=True)

    def told() -> Any:
        answer = raw.ask(request, 9)
        return None if any(group.error_code in AWAY for group in answer.groups) else answer

    answer = until(told, "the offsets of all groups")
    found = {group.group_id: group.topics[0].partitions[0].committed_offset for group in answer.groups}
    return [found[each.group_id] for each in members]


class Beats:
    """Asks for members over some connections, each answered in its order."""

    def __init__(self, bootstrap: str, connections: int = 8) -> None:
        address = Address.parse(bootstrap)
        self._lanes = [Raw(address.host, address.port, timeout_s=60) for _ in range(connections)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lane in self._lanes:
            lane.close()

    def codes(self, members: Sequence[Member]) -> list[int]:
        """One heartbeat of each: its error code."""
        rows: dict[int, list[Member]] = {}
        for number, each in enumerate(members):
            rows.setdefault(number % len(self._lanes), []).append(each)
        for lane, some in rows.items():
            self._lanes[lane].send_bytes(b"".join(each.frame for each in some))
        found = {lane: [_code(self._lanes[lane].receive_frame()) for _ in some] for lane, some in rows.items()}
        return [found[number % len(self._lanes)][number // len(self._lanes)] for number in range(len(members))]

    def until_answered(self, members: Iterable[Member], timeout_s: float = HUNG_S) -> dict[str, float]:
        """When each group was first answered, by time.monotonic(); one without a coordinator is asked again.

        The groups of a shard share a connection, where there are as many as shards. While the first of them is refused,
        the others are not asked: thousands of requests that are refused would keep the processors busy.
        """
        waiting = [deque[Member]() for _ in self._lanes]
        for each in members:
            waiting[partition_for(each.group_id, len(self._lanes))].append(each)
        answered: dict[str, float] = {}
        is_served, again_at = [False] * len(self._lanes), [0.0] * len(self._lanes)
        asked = [deque[Member]() for _ in self._lanes]
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            for number, lane in enumerate(self._lanes):
                selector.register(lane.socket, selectors.EVENT_READ, number)
            while any(waiting) or any(asked):
                now = time.monotonic()
                assert now < deadline, f"{sum(map(len, waiting)) + sum(map(len, asked))} groups have no answer"
                for number, lane in enumerate(self._lanes):
                    if waiting[number] and not asked[number] and now >= again_at[number]:
                        for _ in range(len(waiting[number]) if is_served[number] else 1):
                            asked[number].append(waiting[number].popleft())
                        lane.send_bytes(b"".join(each.frame for each in asked[number]))
                for key, _ in selector.select(_AGAIN_S / 4):
                    number = key.data
                    code, each = _code(self._lanes[number].receive_frame()), asked[number].popleft()
                    is_served[number] = code not in AWAY
                    if code in AWAY:
                        waiting[number].appendleft(each)
                        again_at[number] = time.monotonic() + _AGAIN_S
                    else:
                        assert not code, f"{each.group_id} is refused with {code}"
                        answered[each.group_id] = time.monotonic()
        return answered


def _code(frame: bytes) -> int:
    (code,) = struct.unpack_from(">h", frame, _ERROR_AT)
    return int(code)
