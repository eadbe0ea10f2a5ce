"""Producers that consume, transform and produce, as Kafka's clients do it, and readers at read_committed.

A producer of the first protocol adds partitions itself (AddPartitionsToTxn, AddOffsetsToTxn) and keeps its epoch; one
of the second leaves that to Produce 12 and TxnOffsetCommit 5, and goes on with the epoch that EndTxn 5 answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.transactions.checker import Attempt, TopicPartition, Violation
from sim.transactions.cluster import GROUP, INPUT, TOPIC, Cluster
from sim.transactions.leaders import Log, Produce
from sim.transactions.world import Process
from tailrace.errors import ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.net.client import Disconnected
from tailrace.state import ProducerIdAndEpoch
from tailrace.wire import messages as m

NEW = ProducerIdAndEpoch(-1, -1)
_REQUEST_TIMEOUT_MS = 600
_RETRIABLE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_FENCED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
_ABORTABLE = frozenset(
    {ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
)


class Fenced(Exception):
    """This instance has no say any more."""


class Abortable(Exception):
    """The transaction must be aborted."""


class Crash(Exception):
    """The process dies."""


class Client(Process):
    """One transactional id; its instances follow, and sometimes overlap."""

    def __init__(self, cluster: Cluster, number: int, protocol: int, timeout_ms: int) -> None:
        super().__init__(cluster.world, f"client {number}")
        self.cluster = cluster
        self.number = number
        self.transactional_id = f"id-{number}"
        self.protocol = protocol
        self.timeout_ms = timeout_ms
        self.instances = 0
        self.stopping = False
        self.commits = 0
        self.crashes = 0.05

    def start(self) -> None:
        """Begins another instance, whatever the one before does."""
        if not self.stopping:
            self.instances += 1
            Instance(self, self.instances).start()


class Instance(Process):
    """One producer object."""

    def __init__(self, client: Client, number: int) -> None:
        super().__init__(client.world, f"{client.name}.{number}")
        self.client = client
        self.cluster = client.cluster
        self.number = number
        self.v2 = client.protocol == 2
        self.producer = NEW
        self.sequences: dict[TopicPartition, int] = {}
        self.transactions = 0
        self.unsure = False  # whether a batch may be in a log without an acknowledgement
        self.is_over = False

    def start(self) -> None:
        self.boot()
        self.spawn(self._live())

    async def _live(self) -> None:
        client, random = self.client, self.world.random
        try:
            await self._init(NEW)
            position = await self._position()
            while not client.stopping:
                await self.sleep(random.uniform(1, 120))
                position = await self._transaction(position)
                if self.world.chance(0.03):
                    self.say("has a rival")
                    client.start()
        except Fenced as why:
            self.say(f"is fenced: {why}")
            if ErrorCode.INVALID_PRODUCER_ID_MAPPING.name in str(why) and not self._may_be_forgotten():
                raise Violation(f"{self.name} has the id, and is refused: {why}") from why
            await self.sleep(random.uniform(1, 300))
            client.start()
        except Crash:
            self.say("crashes")
            self.world.after(random.uniform(1, 900), client.start)
            self.end()

    def _may_be_forgotten(self) -> bool:
        """Whether another instance, or a late request of this one, may have taken the id, or it may have expired."""
        return self.client.instances > 1 or self.cluster.expires or self.cluster.repeats

    # -- one transaction ---------------------------------------------------------------------------------------------

    async def _transaction(self, position: int) -> int:
        """Returns the next position."""
        random, cluster = self.world.random, self.cluster
        self.transactions += 1
        name = f"{self.client.number}.{self.number}.{self.transactions}"
        consumes = random.random() < 0.8
        attempt = cluster.checker.begin(name, self.client.transactional_id, position if consumes else None)
        cluster.attempts[name] = attempt
        places = random.sample(sorted(cluster.logs), random.randint(0 if consumes else 1, len(cluster.logs)))
        commit = random.random() < 0.75
        self.say(f"begins {name} as {self.producer} on {[index for _, index in places]}, consumes {attempt.position}")
        try:
            await self._write(attempt, places)
            if self.world.chance(0.1):
                await self.sleep(random.uniform(0, 1.5 * self.client.timeout_ms))
            if consumes and (commit or random.random() < 0.5):
                await self._commit_offset(attempt, position + 1)
            self._maybe_crash()
        except Abortable as why:
            self.say(f"{name} must be aborted: {why}")
            commit = False
        begun = bool(places) or consumes
        if not begun:
            return position
        await self._end(attempt, commit)
        return position + 1 if commit and consumes else position

    async def _write(self, attempt: Attempt, places: list[TopicPartition]) -> None:
        if not self.v2 and places:
            await self._add(places)
        batches = [place for place in places for _ in range(self.world.random.choice((1, 1, 2)))]
        self.world.random.shuffle(batches)
        for place in batches:
            await self._produce(attempt, place)
            self._maybe_crash()

    def _maybe_crash(self) -> None:
        if self.world.chance(self.client.crashes * 0.3):
            raise Crash

    async def _produce(self, attempt: Attempt, place: TopicPartition) -> None:
        """One batch, sent until it is acknowledged or refused, or for as long as delivery.timeout.ms says."""
        random = self.world.random
        sequence, count = self.sequences.get(place, 0), random.choice((1, 1, 3))
        version = 12 if self.v2 else 11
        produce = Produce(self.client.transactional_id, self.producer, place, sequence, count, attempt, version)
        for _ in range(random.choice((3, 12))):
            leader = self.cluster.brokers[self.cluster.logs[place].leader]
            if self.world.chance(0.05):
                leader = random.choice(self.cluster.brokers)
            try:
                code = await self.cluster.ask(self, leader, produce, version, _REQUEST_TIMEOUT_MS)
            except (Disconnected, TimeoutError):
                self.unsure = True
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if code == ErrorCode.NONE:
                self.sequences[place] = sequence + count
                attempt.acknowledged[place] += count
                return
            if code not in _RETRIABLE:
                self.unsure = True  # its sequence numbers have a gap now
                if code in _FENCED:
                    raise Fenced(f"Produce: {code!r}")
                assert code in _ABORTABLE, code
                raise Abortable(f"Produce: {code!r}")
            await self.sleep(random.uniform(5, 60))
        self.unsure = True
        raise Abortable("Produce: no answer")

    async def _add(self, places: list[TopicPartition]) -> None:
        row = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        request = m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.client.transactional_id,
            v3_and_below_producer_id=self.producer.producer_id,
            v3_and_below_producer_epoch=self.producer.producer_epoch,
            v3_and_below_topics=[row(name=TOPIC, partitions=[index for _, index in places])],
        )

        def code_of(answer: Any) -> int:
            rows = answer.results_by_topic_v3_and_below[0].results_by_partition
            codes = [row.partition_error_code for row in rows]  # one that is refused keeps the others from being tried
            return next((one for one in codes if one != ErrorCode.OPERATION_NOT_ATTEMPTED), 0)

        await self._ask_coordinator(request, 3, code_of)

    async def _commit_offset(self, attempt: Attempt, offset: int) -> None:
        producer_id, epoch = self.producer
        if not self.v2:
            await self._ask_coordinator(
                m.AddOffsetsToTxnRequest(
                    transactional_id=self.client.transactional_id,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    group_id=GROUP,
                ),
                3,
            )
        topic = m.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        row = topic.TxnOffsetCommitRequestPartition(
            partition_index=self.client.number, committed_offset=offset, committed_metadata=attempt.name
        )
        request = m.TxnOffsetCommitRequest(
            transactional_id=self.client.transactional_id,
            group_id=GROUP,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[topic(name=INPUT, partitions=[row])],
        )

        def code_of(answer: Any) -> int:
            code: int = answer.topics[0].partitions[0].error_code
            return code

        await self._ask_group(request, 5 if self.v2 else 3, code_of)
        attempt.has_offset = True

    async def _end(self, attempt: Attempt, commit: bool) -> None:
        attempt.asks = commit
        request = m.EndTxnRequest(
            transactional_id=self.client.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            committed=commit,
        )
        try:
            answer = await self._ask_coordinator(request, 5 if self.v2 else 4, end=True)
        except Abortable as why:
            raise Fenced(str(why)) from why  # INVALID_TXN_STATE is fatal here
        self.say(f"{attempt.name} is {'committed' if commit else 'aborted'}")
        self.cluster.checker.ended(attempt, commit)
        self.client.commits += commit
        if self.v2:
            self.producer = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
            self.sequences.clear()
            self.unsure = False
        elif self.unsure:
            await self._init(self.producer)  # KIP-360

    # -- asking ------------------------------------------------------------------------------------------------------

    async def _init(self, known: ProducerIdAndEpoch) -> None:
        request = m.InitProducerIdRequest(
            transactional_id=self.client.transactional_id,
            transaction_timeout_ms=self.client.timeout_ms,
            producer_id=known.producer_id,
            producer_epoch=known.producer_epoch,
        )
        try:
            answer = await self._ask_coordinator(request, 5, init=True)
        except Abortable as why:
            raise Fenced(str(why)) from why
        self.producer = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
        self.sequences.clear()
        self.unsure = False
        self.say(f"is {self.producer}")

    async def _position(self) -> int:
        """The offset of the group, once no transaction may change it (KIP-447)."""
        group = m.OffsetFetchRequest.OffsetFetchRequestGroup
        topics = [group.OffsetFetchRequestTopics(name=INPUT, partition_indexes=[self.client.number])]
        request = m.OffsetFetchRequest(groups=[group(group_id=GROUP, topics=topics)], require_stable=True)

        def code_of(answer: Any) -> int:
            found = answer.groups[0]
            code: int = found.error_code or found.topics[0].partitions[0].error_code
            return code

        answer = await self._ask_group(request, 9, code_of)
        return max(0, int(answer.groups[0].topics[0].partitions[0].committed_offset))

    async def _ask_coordinator(
        self,
        request: Any,
        version: int,
        code_of: Callable[[Any], int] = lambda answer: answer.error_code,
        *,
        init: bool = False,
        end: bool = False,
    ) -> Any:
        # Up to version 1 a transaction's epoch is the next one's, too: a late request would be one of that.
        repeats = init or self.v2
        return await self._ask(
            lambda: self.cluster.transaction_coordinator(self.client.transactional_id),
            request,
            version,
            code_of,
            repeats=repeats,
            dies=end,
        )

    async def _ask_group(self, request: Any, version: int, code_of: Callable[[Any], int]) -> Any:
        repeats = self.v2 or isinstance(request, m.OffsetFetchRequest)
        return await self._ask(
            lambda: self.cluster.owner(GROUP_METADATA_TOPIC, 0), request, version, code_of, repeats=repeats
        )

    async def _ask(
        self,
        target: Callable[[], Process],
        request: Any,
        version: int,
        code_of: Callable[[Any], int],
        *,
        repeats: bool,
        dies: bool = False,
    ) -> Any:
        """Asks until there is an answer that no retry will change. Raises Fenced or Abortable."""
        while True:
            try:
                answer = await self.cluster.ask(self, target(), request, version, _REQUEST_TIMEOUT_MS, repeats=repeats)
                code = ErrorCode(answer if isinstance(answer, int) else code_of(answer))
            except (Disconnected, TimeoutError):
                code = ErrorCode.NOT_COORDINATOR
            if code is ErrorCode.NONE:
                return answer
            if dies:
                self._maybe_crash()
            name = type(request).__name__.removesuffix("Request")
            if code in _FENCED:
                raise Fenced(f"{name}: {code!r}")
            if code not in _RETRIABLE:
                assert code in _ABORTABLE, (name, code)
                raise Abortable(f"{name}: {code!r}")
            await self.sleep(self.world.random.uniform(5, 60))


class Reader:
    """Reads one partition at read_committed, piece by piece."""

    def __init__(self, cluster: Cluster, log: Log) -> None:
        self.cluster = cluster
        self.log = log
        self.offset = 0

    def start(self) -> None:
        self.read()
        self.cluster.world.after(self.cluster.world.random.uniform(5, 200), self.start)

    def read(self) -> None:
        """What there is up to the last stable offset, or a part of it."""
        log, checker = self.log, self.cluster.checker
        stable = log.last_stable_offset
        checker.on_stable(log.place, stable)
        starts = [one.header.base_offset for one in log.entries if self.offset < one.header.base_offset < stable]
        limit = self.cluster.world.random.choice([*starts, stable]) if starts else stable
        for entry in log.read_committed(self.offset, limit):
            assert entry.attempt is not None
            checker.on_visible(log.place, entry.attempt, entry.header.record_count)
        self.offset = max(self.offset, limit)
