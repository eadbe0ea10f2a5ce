"""Produce requests whose batches begin a transaction in a log: held until the coordinator has answered (KIP-890).

v0-11: the coordinator confirms that its producer has added the partition (transaction.partition.verification.enable).
v12: the partition is added here, whatever that key says, and CONCURRENT_TRANSACTIONS is tried again for a moment.

Batches of a transaction that is open in the log pass at once. A held request is a copy; the connection's next requests
go on. What is for the same partition and producer as a held request waits behind it, from whichever connection, so
that batches keep their order. Apache Kafka serves one request of a connection at a time instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from tailrace.access.authorizer import Denied
from tailrace.access.resources import AclOperation, ResourceType
from tailrace.errors import ErrorCode
from tailrace.log.producers.state import is_ongoing
from tailrace.log.producers.verification import Verification
from tailrace.net.session import ClientSession
from tailrace.records.batch import HEADER_SIZE, BatchHeader, read_header
from tailrace.wire.apis import ApiKey
from tailrace.wire.connection import Promised
from tailrace.wire.hot.produce import Produce, ProducePartition, ProduceTopic
from tailrace_broker.produce.checks import ATTRIBUTES_LOW_BYTE as _FLAGS_AT
from tailrace_broker.produce.checks import TRANSACTIONAL
from tailrace_broker.produce.refused_batches import AskedPartition
from tailrace_broker.produce.request import TOPIC_IDS_FROM, ProducerConnection
from tailrace_broker.produce.validation import DeferredAnswer
from tailrace_broker.transactions.add_partitions import ADDS_FROM, Answers, Asked, produce_error
from tailrace_broker.transactions.coordinators import Question

if TYPE_CHECKING:
    from tailrace.clock import Clock
    from tailrace_broker.dynamic_config import DynamicBrokerConfig
    from tailrace_broker.metrics import BrokerMetrics
    from tailrace_broker.partitions.partition import Partition
    from tailrace_broker.partitions.topics import Topics
    from tailrace_broker.topic_rights import TopicRights
    from tailrace_broker.transactions.coordinators import Coordinators

MOST_HELD_BYTES: Final = 64 * 1024 * 1024  # beyond it a connection waits for what it has sent last
MOST_BYTES: Final = 256 * 1024 * 1024  # beyond it requests are refused
_REQUEST_BYTES: Final = 1024  # what a held request takes beside its records
_SEVERAL: Final = "Transactional records contained more than one producer ID"

Key = tuple["Partition", int]  # with a producer id


class PartitionRefusal(NamedTuple):
    """What a partition is answered."""

    error_code: int
    message: str | None = None


_FULL: Final = PartitionRefusal(
    ErrorCode.NOT_ENOUGH_REPLICAS,
    "Unable to verify the partition has been added to the transaction: too many requests wait for that",
)


class Verdict(NamedTuple):
    """What a held request's partitions are answered, and under which verification the others are appended."""

    refused: dict[AskedPartition, PartitionRefusal]
    verified: dict[AskedPartition, Verification]
    whole: PartitionRefusal | None = None  # of every partition


ACKS: Final = (-1, 0, 1)


class Transactional(NamedTuple):
    """A partition of a request that a transaction's batch is for."""

    place: AskedPartition
    partition: Partition
    header: BatchHeader


class Rows(NamedTuple):
    """Of one request: what is led here, and how the rest is refused, whoever leads it by the time of the append."""

    led: list[Transactional]
    not_led: dict[AskedPartition, PartitionRefusal]


class HeldRequest:
    """A request, as a copy, and what it waits for."""

    __slots__ = (
        "begin",
        "behind",
        "connection",
        "correlation_id",
        "followers",
        "not_led",
        "request",
        "rows",
        "size_bytes",
        "slot",
        "throttle_time_ms",
        "tries_until_ms",
        "verdict",
        "version",
    )

    def __init__(
        self,
        connection: ProducerConnection,
        version: int,
        correlation_id: int,
        request: Produce,
        rows: Rows,
        begin: Callable[[HeldRequest], None],
        *,
        full: bool,
    ) -> None:
        """begin is called with it when nobody is before it any more."""
        self.connection = connection
        self.version = version
        self.correlation_id = correlation_id
        self.request = copied(request)
        self.rows = rows.led
        self.not_led = rows.not_led
        self.slot: Promised | DeferredAnswer | None = None
        if full:
            self.slot = DeferredAnswer()
        elif request.acks:
            self.slot = Promised()
        self.size_bytes = _REQUEST_BYTES + sum(
            len(asked.records or b"") for topic in self.request.topics for asked in topic.partitions
        )
        self.behind = 0  # how many held requests must be appended before
        self.followers: list[HeldRequest] = []
        self.tries_until_ms = -1.0  # CONCURRENT_TRANSACTIONS is tried again so long
        self.throttle_time_ms = 0  # what a quota asks of the client
        self.verdict = Verdict({}, {})
        self.begin = begin

    @property
    def keys(self) -> set[Key]:
        """Who must come behind it: the same producer on the same partition."""
        return {(row.partition, row.header.producer_id) for row in self.rows}


class Serve(Protocol):
    """PlainProduce: stages and appends held requests that may go on."""

    def serve_held(self, held: HeldRequest, on_appended: Callable[[], None]) -> bool:
        """Stages the request's batches; whether end_of_read appends them. Else on_appended says when that is done."""

    def end_of_read(self) -> None:
        """Appends what was staged, and answers."""


class Verifier:
    """Of one PlainProduce."""

    def __init__(
        self,
        topics: Topics,
        rights: TopicRights,
        coordinators: Coordinators,
        config: DynamicBrokerConfig,
        metrics: BrokerMetrics,
        clock: Clock,
        last: dict[Key, HeldRequest],
        path: Serve,
    ) -> None:
        """last: the request that the next one for a partition and producer waits for, of all paths of a broker."""
        self._topics = topics
        self._rights = rights
        self._coordinators = coordinators
        self._config = config
        self._metrics = metrics
        self._clock = clock
        self._last = last
        self._path = path
        self._ready: list[HeldRequest] = []
        self.held_bytes = 0

    def admit(
        self, connection: ProducerConnection, version: int, correlation_id: int, request: Produce
    ) -> HeldRequest | Verdict:
        """A client's request with transactional batches: as hold, or why it is refused as a whole."""
        whole = refusal(request)
        if whole is None and not _may_write(connection.session, request):
            whole = PartitionRefusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if whole is None and request.acks not in ACKS:
            whole = PartitionRefusal(ErrorCode.INVALID_REQUIRED_ACKS)
        if whole is not None:
            return Verdict({}, {}, whole)
        return self.hold(connection, version, correlation_id, request)

    def hold(
        self, connection: ProducerConnection, version: int, correlation_id: int, request: Produce
    ) -> HeldRequest | Verdict:
        """The request, held, or what its partitions are answered now."""
        rows = self._rows(version, request, connection.session)
        before = {held for row in rows.led if (held := self._last.get((row.partition, row.header.producer_id)))}
        if not before:
            verdict = self._verdict(rows.led, rows.not_led, version)
            if not verdict.verified or not self._verifies(version):
                return verdict
        if self.held_bytes > MOST_BYTES:
            return Verdict(rows.not_led | {row.place: _FULL for row in rows.led}, {})
        full = self.held_bytes > MOST_HELD_BYTES
        held = HeldRequest(connection, version, correlation_id, request, rows, self._begin, full=full)
        self.held_bytes += held.size_bytes
        self._metrics.held_produce_requests += 1
        held.behind = len(before)
        for one in before:
            one.followers.append(held)
        self._last.update(dict.fromkeys(held.keys, held))
        if not before:
            self._begin(held)
        return held

    def _verifies(self, version: int) -> bool:
        """Whether coordinators are asked for requests of this version."""
        return version >= ADDS_FROM or self._config.current.transaction_partition_verification_enable

    def _rows(self, version: int, request: Produce, session: ClientSession) -> Rows:
        """What a coordinator may have to be asked about; the rest is refused or taken without."""
        rows = Rows([], {})
        for topic, asked in transactional(request):
            assert asked.records is not None
            if len(asked.records) < HEADER_SIZE or (header := read_header(asked.records)).producer_id < 0:
                continue
            place = (topic.key, asked.partition)
            by_id = version >= TOPIC_IDS_FROM
            if session.restricted and self._rights.refusal(session, AclOperation.WRITE, topic.key, by_id=by_id):
                continue  # refused when it is staged
            partition, code = self._topics.leading(topic.key, asked.partition, by_id=by_id)
            if partition is None:
                rows.not_led[place] = PartitionRefusal(code)
            elif not partition.internal and opened(partition):
                rows.led.append(Transactional(place, partition, header))
        return rows

    # -- ask ---------------------------------------------------------------------------------------------------------

    def _verdict(
        self, rows: list[Transactional], not_led: dict[AskedPartition, PartitionRefusal], version: int
    ) -> Verdict:
        """Which partitions are refused at once, and which need to be verified; an earlier request may have done it."""
        refused, verified = dict(not_led), dict[AskedPartition, Verification]()
        for place, partition, header in rows:
            log = partition.opened
            if log is None or partition.leader != self._topics.node_id:
                refused[place] = PartitionRefusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                continue
            entry = log.producers.entries.get(header.producer_id)
            if entry is not None and header.producer_epoch < entry.producer_epoch:
                refused[place] = PartitionRefusal(ErrorCode.INVALID_PRODUCER_EPOCH)
            elif not is_ongoing(entry, header.producer_epoch):
                verified[place] = log.producers.verifications.begin(
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    self._clock.wall_ms(),
                    supports_epoch_bump=version >= ADDS_FROM,
                )
        return Verdict(refused, verified)

    def _begin(self, held: HeldRequest) -> None:
        """Nobody is before it any more: asks for those of its partitions that need it."""
        held.verdict = self._verdict(held.rows, held.not_led, held.version)
        if not held.verdict.verified or not self._verifies(held.version):
            self._go_on(held)
            return
        transactional_id, header = held.request.transactional_id, held.rows[0].header
        assert transactional_id is not None
        asked = Asked(
            transactional_id.decode("utf-8", "replace"),
            header.producer_id,
            header.producer_epoch,
            held.version < ADDS_FROM,
        )
        verified = held.verdict.verified
        places = [(row.partition.topic, row.partition.index) for row in held.rows if row.place in verified]
        now_ms = self._clock.monotonic_ms()
        if held.tries_until_ms < 0:
            config = self._config.current
            held.tries_until_ms = now_ms + min(
                config.add_partitions_to_txn_retry_backoff_max_ms, config.request_timeout_ms
            )
        self._coordinators.ask(Question(asked, tuple(places), partial(self._answered, held, now_ms)))

    def _answered(self, held: HeldRequest, asked_at_ms: float, answers: Answers) -> None:
        """The coordinator's answer: the request goes on, or asks again in a moment."""
        now_ms = self._clock.monotonic_ms()
        self._metrics.verified(now_ms - asked_at_ms, failures=sum(code != 0 for code in answers.values()))
        concurrent = held.version >= ADDS_FROM and ErrorCode.CONCURRENT_TRANSACTIONS in answers.values()
        if concurrent and now_ms < held.tries_until_ms:
            pause_ms = self._config.current.add_partitions_to_txn_retry_backoff_ms
            asyncio.get_running_loop().call_later(pause_ms / 1000, self._begin, held)
            return
        refused, verified, _ = held.verdict
        for row in held.rows:
            code = answers.get((row.partition.topic, row.partition.index), 0)
            if code and verified.pop(row.place, None) is not None:
                refused[row.place] = PartitionRefusal(*produce_error(code, held.version))
        self._go_on(held)

    # -- go on -------------------------------------------------------------------------------------------------------

    def _go_on(self, held: HeldRequest) -> None:
        """Has it appended in the loop's next turn, together with what else goes on, and in no connection's read."""
        if not self._ready:
            asyncio.get_running_loop().call_soon(self._serve_ready)
        self._ready.append(held)

    def _serve_ready(self) -> None:
        ready, self._ready = self._ready, []
        appended = [one for one in ready if self._path.serve_held(one, partial(self._leave, one))]
        self._path.end_of_read()
        for one in appended:
            self._leave(one)
        for connection in {one.connection: None for one in appended}:
            connection.flush()

    def _leave(self, held: HeldRequest) -> None:
        """It is in the log, or refused: those that waited for it ask now."""
        self.held_bytes -= held.size_bytes
        self._metrics.held_produce_requests -= 1
        for key in held.keys:
            if self._last.get(key) is held:
                del self._last[key]
        if type(held.slot) is DeferredAnswer and not held.request.acks:
            held.slot.answer = []
        for one in held.followers:
            one.behind -= 1
            if not one.behind:
                one.begin(one)


def refusal(request: Produce) -> PartitionRefusal | None:
    """Why a client's request with transactional batches is refused as a whole."""
    if request.transactional_id is None:
        return PartitionRefusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    producers = set()
    for _, asked in transactional(request):
        if asked.records is not None and len(asked.records) >= HEADER_SIZE:
            header = read_header(asked.records)
            if header.producer_id >= 0:
                producers.add((header.producer_id, header.producer_epoch))
    return PartitionRefusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING, _SEVERAL) if len(producers) > 1 else None


def is_transactional(request: Produce) -> bool:
    """Whether any of its batches is a transaction's."""
    for topic in request.topics:
        for _, records, _ in topic.partitions:
            if records is not None and len(records) > _FLAGS_AT and records[_FLAGS_AT] & TRANSACTIONAL:
                return True
    return False


def copied(request: Produce) -> Produce:
    """With records of its own: the frame is gone when they are appended."""
    topics = [ProduceTopic(topic.key, [_copied(asked) for asked in topic.partitions]) for topic in request.topics]
    return request._replace(topics=topics)


def _copied(asked: ProducePartition) -> ProducePartition:
    return asked if asked.records is None else asked._replace(records=memoryview(bytearray(asked.records)))


def transactional(request: Produce) -> Iterator[tuple[ProduceTopic, ProducePartition]]:
    """The partitions with a transaction's batch."""
    for topic in request.topics:
        for asked in topic.partitions:
            records = asked.records
            if records is not None and len(records) > _FLAGS_AT and records[_FLAGS_AT] & TRANSACTIONAL:
                yield topic, asked


def opened(partition: Partition) -> bool:
    """Whether its log can be used; if not, the append says why."""
    try:
        return partition.log is not None
    except OSError:
        return False


def _may_write(session: ClientSession, request: Produce) -> bool:
    """Whether the client may write in its transaction; a refusal is reported."""
    assert request.transactional_id is not None
    name = bytes(request.transactional_id).decode("utf-8", "replace")
    right = Denied(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name)
    if session.authorized(*right):
        return True
    session.on_denied(ApiKey.PRODUCE, right)
    return False
