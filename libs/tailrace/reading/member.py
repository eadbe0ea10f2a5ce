"""A member of a classic consumer group that reads one topic: joins, keeps its membership, commits and leaves.

The group's state is asked for between two polls, as Kafka's clients did before they had a thread for it (KIP-62).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tailrace.clock import Clock
from tailrace.errors import ErrorCode
from tailrace.kafka.consumer_protocol import (
    PROTOCOL_TYPE,
    encode_assignment,
    encode_subscription,
    partitions_of,
    read_topics,
)
from tailrace.net.address import Address
from tailrace.net.client import Disconnected
from tailrace.reading.assignment import RANGE, Subscriber, assign
from tailrace.reading.cursor import Cursor
from tailrace.reading.reader import NO_TOPIC_ID, AskNode, TopicReader, refusal
from tailrace.reading.start import Start
from tailrace.records.record import Record
from tailrace.wire import messages as m
from tailrace.wire.limits import HIGHEST, pages

_FIND_COORDINATOR_VERSION: Final = 4
_JOIN_GROUP_VERSION: Final = 7
_SYNC_GROUP_VERSION: Final = 5
_HEARTBEAT_VERSION: Final = 4
_LEAVE_GROUP_VERSION: Final = 5
_OFFSET_FETCH_VERSION: Final = 7
_OFFSET_COMMIT_VERSION: Final = 8
_METADATA_VERSION: Final = 12
# The defaults of Kafka's consumer: session.timeout.ms, heartbeat.interval.ms, auto.commit.interval.ms.
_SESSION_TIMEOUT_MS: Final = 45_000
_HEARTBEAT_INTERVAL_MS: Final = 3_000
_COMMIT_INTERVAL_MS: Final = 5_000
_AGAIN_MS: Final = 100
_ELSEWHERE: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
_LATER: Final = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.REQUEST_TIMED_OUT}
)
# The member is not, or not yet, in the group's generation.
_REJOIN: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})
_FAILURES: Final = (Disconnected, TimeoutError)


class GroupMember:
    """Membership of a topic's reader in a group.

    A coordinator that gives no usable answer for longer than `patience_ms` ends it with the error of the last request.
    """

    def __init__(
        self,
        ask: AskNode,
        clock: Clock,
        reader: TopicReader,
        group_id: str,
        topic: str,
        start: Start,
        *,
        patience_ms: float,
    ) -> None:
        """start: where to begin in partitions without a committed offset (auto.offset.reset)."""
        self._ask = ask
        self._clock = clock
        self._reader = reader
        self._group_id = group_id
        self._topic = topic
        self._start = start
        self._patience_ms = patience_ms
        self._coordinator: Address | None = None
        self._member_id = ""
        self._generation_id = -1
        self._joined = False
        self._cursors: Mapping[int, Cursor] = {}
        self._committed: dict[int, int] = {}
        self._heartbeat_ms = self._commit_ms = 0.0  # when the next one is due

    @property
    def done(self) -> bool:
        """Never: a member goes on."""
        return False

    async def poll(self, max_wait_ms: int) -> Iterator[tuple[int, Record]]:
        """As the reader's poll, of the partitions that the group gives this member; what was taken before is committed.

        Raises ApiError, Disconnected or TimeoutError where the group or a partition cannot be read.
        """
        await self._keep()
        while not self._joined:
            await self._join()
        return await self._reader.poll(max_wait_ms)

    async def close(self) -> None:
        """Commits what was taken, and leaves the group."""
        if self._joined:
            await self._commit()
        if not self._member_id:
            return
        row = m.LeaveGroupRequest.MemberIdentity
        members = [row(member_id=self._member_id, group_instance_id=None, reason="the consumer is being closed")]
        self._joined, self._member_id = False, ""
        await self._send(m.LeaveGroupRequest(group_id=self._group_id, members=members), _LEAVE_GROUP_VERSION)

    async def _keep(self) -> None:
        """Sends the heartbeat and the commit that are due."""
        now_ms = self._clock.monotonic_ms()
        if self._joined and now_ms >= self._commit_ms:
            await self._commit()
        if self._joined and now_ms >= self._heartbeat_ms:
            self._heartbeat_ms = now_ms + _HEARTBEAT_INTERVAL_MS
            request = m.HeartbeatRequest(
                group_id=self._group_id,
                generation_id=self._generation_id,
                member_id=self._member_id,
                group_instance_id=None,
            )
            code = (await self._send(request, _HEARTBEAT_VERSION)).error_code
            if code == ErrorCode.REBALANCE_IN_PROGRESS:
                await self._commit()  # before the partitions are another member's
            self._check(code)

    def _check(self, code: int) -> None:
        """Takes note of an answer that asks the member to join again. Raises ApiError for others with an error."""
        if code in _REJOIN:
            self._joined = False
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
        elif code:
            raise refusal(code, self._group_id)

    async def _join(self) -> None:
        """One attempt to be in the group's next generation with its partitions."""
        row = m.JoinGroupRequest.JoinGroupRequestProtocol
        request = m.JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=_SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=_SESSION_TIMEOUT_MS,
            member_id=self._member_id,
            group_instance_id=None,
            protocol_type=PROTOCOL_TYPE,
            protocols=[row(name=RANGE, metadata=encode_subscription([self._topic]))],
        )
        answer = await self._send(request, _JOIN_GROUP_VERSION)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394
            self._member_id = answer.member_id
            return
        if answer.error_code:
            self._check(answer.error_code)
            return
        self._member_id, self._generation_id = answer.member_id, answer.generation_id
        shares = await self._assign(answer.members) if answer.leader == answer.member_id else {}
        await self._sync(shares)

    async def _assign(self, members: Any) -> dict[str, bytes]:
        """What the leader of the group gives each member."""
        subscribers = [Subscriber(row.member_id, row.group_instance_id, _topics(row.metadata)) for row in members]
        counts: dict[str, int] = {}
        topic = m.MetadataRequest.MetadataRequestTopic
        for names in pages(sorted(frozenset().union(*(one.topics for one in subscribers)))):
            rows = [topic(name=name, topic_id=NO_TOPIC_ID) for name in names]
            request = m.MetadataRequest(topics=rows, allow_auto_topic_creation=False)
            answer = await self._ask(request, _METADATA_VERSION)
            counts |= {row.name: len(row.partitions) for row in answer.topics if row.partitions}
        return {id: encode_assignment(share) for id, share in assign(subscribers, counts).items()}

    async def _sync(self, shares: Mapping[str, bytes]) -> None:
        row = m.SyncGroupRequest.SyncGroupRequestAssignment
        request = m.SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            group_instance_id=None,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=RANGE,
            assignments=[row(member_id=member_id, assignment=share) for member_id, share in shares.items()],
        )
        answer = await self._send(request, _SYNC_GROUP_VERSION)
        if answer.error_code:
            self._check(answer.error_code)
            return
        await self._take(sorted(index for topic, index in partitions_of(answer.assignment) if topic == self._topic))

    async def _take(self, partitions: list[int]) -> None:
        """Begins to read the partitions where the group is."""
        found = await self._offsets(partitions) if partitions else {}
        new = [index for index in partitions if index not in found]
        cursors = [Cursor(index, offset) for index, offset in found.items()]
        cursors += await self._reader.find(self._start, partitions=new) if new else []
        self._cursors = {cursor.partition: cursor for cursor in cursors}
        self._committed = found
        now_ms = self._clock.monotonic_ms()
        self._heartbeat_ms, self._commit_ms = now_ms + _HEARTBEAT_INTERVAL_MS, now_ms + _COMMIT_INTERVAL_MS
        self._joined = True
        self._reader.assign(cursors)

    async def _offsets(self, partitions: list[int]) -> dict[int, int]:
        """The committed offsets; a partition without one is not in it."""
        row = m.OffsetFetchRequest.OffsetFetchRequestTopic
        request = m.OffsetFetchRequest(
            group_id=self._group_id,
            topics=[row(name=self._topic, partition_indexes=partitions)],
            require_stable=True,
        )
        answer = await self._send(request, _OFFSET_FETCH_VERSION)
        if code := _error_code(request, answer):
            raise refusal(code, self._group_id)
        rows = (row for topic in answer.topics for row in topic.partitions)
        return {row.partition_index: row.committed_offset for row in rows if row.committed_offset >= 0}

    async def _commit(self) -> None:
        """Commits the positions that have moved."""
        self._commit_ms = self._clock.monotonic_ms() + _COMMIT_INTERVAL_MS
        moved = {
            index: cursor.offset
            for index, cursor in self._cursors.items()
            if cursor.offset != self._committed.get(index, -1)
        }
        if not moved:
            return
        topic = m.OffsetCommitRequest.OffsetCommitRequestTopic
        row = topic.OffsetCommitRequestPartition
        request = m.OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=self._generation_id,
            member_id=self._member_id,
            group_instance_id=None,
            topics=[
                topic(
                    name=self._topic,
                    partitions=[
                        row(partition_index=index, committed_offset=offset, committed_leader_epoch=-1)
                        for index, offset in moved.items()
                    ],
                )
            ],
        )
        code = _error_code(request, await self._send(request, _OFFSET_COMMIT_VERSION))
        self._check(code)
        if not code:
            self._committed |= moved

    async def _send(self, request: m.ApiMessage, version: int) -> Any:
        """One request to the coordinator, which is looked for and asked again until it can answer."""
        began_ms = self._clock.monotonic_ms()
        while True:
            try:
                answer = await self._ask(request, version, await self._find())
                code = _error_code(request, answer)
                if code not in _ELSEWHERE and code not in _LATER:
                    return answer
                error: Exception = refusal(code, self._group_id)
            except _FAILURES as failed:
                error, code = failed, int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if code in _ELSEWHERE:
                self._coordinator = None
            if self._clock.monotonic_ms() - began_ms >= self._patience_ms:
                raise error
            await self._clock.sleep(_AGAIN_MS)

    async def _find(self) -> Address:
        """The node that the group's requests go to. Raises Disconnected where there is none yet."""
        if self._coordinator is None:
            request = m.FindCoordinatorRequest(key_type=0, coordinator_keys=[self._group_id])
            (found,) = (await self._ask(request, _FIND_COORDINATOR_VERSION)).coordinators
            if found.error_code in _ELSEWHERE or found.error_code in _LATER:
                raise Disconnected(str(refusal(found.error_code, self._group_id)))
            if found.error_code:
                raise refusal(found.error_code, self._group_id)
            self._coordinator = Address(found.host, found.port)
        return self._coordinator


def _topics(subscription: bytes) -> list[str]:
    """The topics of another member; none where its bytes follow another format."""
    topics, _ = read_topics(subscription, HIGHEST)
    return topics or []


def _error_code(request: m.ApiMessage, answer: Any) -> int:
    """The error of the whole answer, or of its first row that has one."""
    if isinstance(request, m.OffsetCommitRequest):
        return next(filter(None, _row_codes(answer)), 0)
    if isinstance(request, m.OffsetFetchRequest):
        return answer.error_code or next(filter(None, _row_codes(answer)), 0)
    return int(answer.error_code)


def _row_codes(answer: Any) -> Iterator[int]:
    return (row.error_code for topic in answer.topics for row in topic.partitions)
