"""Groups whose members change their protocol one by one (`group.consumer.migration.policy`), on every cluster."""

from __future__ import annotations

import struct
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from compat.test_consumer_groups import Member, produce
from compat.version_table import consumer_beat
from support.raw import Raw, build
from support.stage import coordinator, create_topic, unique
from support.targets import Target
from support.waiting import until
from tailrace.kafka.consumer_protocol import encode_assignment, encode_subscription, partitions_of

JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE = 11, 12, 13, 14, 69
UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED, GROUP_ID_NOT_FOUND = 25, 27, 79, 69
CLASSIC, CONSUMER = 0, 1


@dataclass
class Classic:
    """A member of the classic protocol that is played by hand; `owned` is what it tells of itself."""

    connection: Raw
    group: str
    topic: str
    member_id: str = ""
    generation: int = -1
    owned: list[int] = field(default_factory=list)

    def join(self) -> Any:
        """Joins, with an id that it is given first."""
        owned = struct.pack(">i", bool(self.owned))
        if self.owned:
            rows = b"".join(struct.pack(">i", index) for index in self.owned)
            owned += (
                struct.pack(">h", len(self.topic)) + self.topic.encode() + struct.pack(">i", len(self.owned)) + rows
            )
        metadata = b"\0\1" + encode_subscription([self.topic])[2:] + owned
        fields = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000, "protocol_type": "consumer"}
        protocols = [{"name": "range", "metadata": metadata}]
        request = {"group_id": self.group, "protocols": protocols, **fields}
        answer = self.connection.ask(build(JOIN, member_id=self.member_id, **request), 7)
        if answer.error_code == MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = self.connection.ask(build(JOIN, member_id=self.member_id, **request), 7)
        self.generation = answer.generation_id
        return answer

    def _fields(self) -> dict[str, Any]:
        return {"group_id": self.group, "generation_id": self.generation, "member_id": self.member_id}

    def sync(self, assignments: dict[str, bytes] | None = None) -> int:
        rows = [{"member_id": name, "assignment": some} for name, some in (assignments or {}).items()]
        request = build(SYNC, protocol_type="consumer", protocol_name="range", assignments=rows, **self._fields())
        answer = self.connection.ask(request, 5)
        if answer.error_code == 0:
            self.owned = [index for _, index in partitions_of(bytes(answer.assignment))]
        return int(answer.error_code)

    def beat(self) -> int:
        return int(self.connection.ask(build(HEARTBEAT, **self._fields()), 4).error_code)

    def follow(self) -> bool:
        """Does what a cooperative client does at its heartbeat. True: nothing is to be done."""
        if (code := self.beat()) == 0:
            return True
        assert code == REBALANCE_IN_PROGRESS, code
        if self.join().error_code == 0:
            self.sync()
        return False


def kind(connection: Raw, group: str) -> list[tuple[str, str]]:
    rows = connection.ask(build(16, states_filter=[], types_filter=[]), 5).groups
    return [(row.group_type, row.group_state) for row in rows if row.group_id == group]


@pytest.mark.capability("group migration: a classic group is upgraded, and downgraded, member by member")
def test_a_classic_group_is_upgraded_and_downgraded(target: Target) -> None:
    topic, group = create_topic(target, partitions=4), unique("group")
    with target.raw(coordinator(target, group)) as connection:
        classic, new = Classic(connection, group, topic.name), Member(connection, group, "new")
        assert classic.join().error_code == 0
        assert classic.sync({classic.member_id: encode_assignment([(topic.name, n) for n in range(4)], 1)}) == 0
        assert kind(connection, group) == [("classic", "Stable")]
        assert new.enter(topic.name) == 0
        assert (new.epoch, new.count()) == (2, 0)
        assert kind(connection, group) == [("consumer", "Reconciling")]
        assert classic.beat() == classic.sync() == REBALANCE_IN_PROGRESS
        assert (classic.join().leader, classic.generation) == ("", 1)
        assert classic.sync() == 0 and len(classic.owned) == 2
        assert classic.beat() == REBALANCE_IN_PROGRESS  # it has not said yet that it gave the others up
        assert (classic.join().error_code, classic.generation, classic.sync(), classic.beat()) == (0, 2, 0, 0)
        assert new.beat() == 0
        assert sorted(classic.owned + new.owned[topic.topic_id]) == [0, 1, 2, 3]
        shown = connection.ask(build(DESCRIBE, group_ids=[group]), 1).groups[0]
        assert {each.member_id: each.member_type for each in shown.members} == {
            classic.member_id: CLASSIC,
            "new": CONSUMER,
        }
        assert (shown.group_state, shown.group_epoch, shown.assignment_epoch) == ("Stable", 2, 2)
        assert connection.ask(consumer_beat(group, "new", -1), 1).error_code == 0
        assert kind(connection, group) == [("classic", "PreparingRebalance")]
        assert connection.ask(build(DESCRIBE, group_ids=[group]), 1).groups[0].error_code == GROUP_ID_NOT_FOUND
        assert classic.beat() == REBALANCE_IN_PROGRESS
        answer = classic.join()
        assert (answer.error_code, answer.leader, classic.generation) == (0, classic.member_id, 3)


@pytest.mark.capability("group migration: classic members join a consumer group, and leave it")
def test_a_classic_member_joins_a_consumer_group_and_leaves(target: Target) -> None:
    topic, group = create_topic(target, partitions=4), unique("group")
    with target.raw(coordinator(target, group)) as connection:
        classic, new = Classic(connection, group, topic.name), Member(connection, group, "new")
        new.enter(topic.name)
        assert (classic.join().error_code, classic.generation, classic.sync(), classic.owned) == (0, 2, 0, [])
        until(
            lambda: new.beat() == 0 and classic.follow() and len(classic.owned) == new.count() == 2, "both have a half"
        )
        left = build(LEAVE, group_id=group, members=[{"member_id": classic.member_id}])
        assert connection.ask(left, 4).members[0].error_code == 0
        assert classic.beat() == UNKNOWN_MEMBER_ID
        until(lambda: new.beat() == 0 and new.count() == 4, "the other one has all")


@dataclass
class Reader:
    """A consumer of librdkafka in a thread: it commits what it read before it gives a partition up."""

    target: Target
    group: str
    topic: str
    protocol: str
    seen: list[bytes] = field(default_factory=list)
    assigned: int = 0
    failed: list[BaseException] = field(default_factory=list)
    ending: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.target.bootstrap,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if self.protocol == "consumer":
            settings["group.protocol"] = "consumer"
        else:
            more = {"partition.assignment.strategy": "range", "session.timeout.ms": 10_000}
            settings |= {**more, "heartbeat.interval.ms": 500}
        consumer = Consumer(settings)
        next_offsets: dict[int, int] = {}

        def commit(_: Consumer, partitions: list[TopicPartition]) -> None:
            rows = [each.partition for each in partitions if each.partition in next_offsets]
            positions = [TopicPartition(self.topic, index, next_offsets.pop(index)) for index in rows]
            if positions:
                consumer.commit(offsets=positions, asynchronous=False)

        consumer.subscribe([self.topic], on_revoke=commit)
        try:
            while not self.ending.is_set():
                message = consumer.poll(0.1)
                self.assigned = len(consumer.assignment())
                if message is not None and message.error() is None:
                    self.seen.append(message.value() or b"")
                    next_offsets[message.partition() or 0] = (message.offset() or 0) + 1
        except KafkaException as failed:
            self.failed.append(failed)
        finally:
            consumer.close()

    def close(self) -> None:
        self.ending.set()
        self.thread.join()


@pytest.mark.by("confluent")
@pytest.mark.capability("group migration: librdkafka members change one by one while records flow")
def test_every_record_is_read_once_while_members_change_their_protocol(target: Target) -> None:
    topic, group = create_topic(target, partitions=4), unique("group")
    node = coordinator(target, group)
    readers = [Reader(target, group, topic.name, "classic") for _ in range(2)]
    sent = 0

    def shared(count: int) -> Callable[[], bool]:
        return lambda: [each.assigned for each in readers] == [4 // count] * count

    def read_more() -> None:
        nonlocal sent
        produce(topic, sent, 10)
        sent += 10
        until(lambda: sum(len(each.seen) for each in (*gone, *readers)) >= 4 * sent, "the records")

    gone: list[Reader] = []
    try:
        until(shared(2), "two classic members share the topic")
        read_more()
        for protocol in ("consumer", "consumer", "classic", "classic"):
            readers[0].close()
            gone.append(readers.pop(0))
            readers.append(Reader(target, group, topic.name, protocol))
            until(shared(2), f"the new {protocol} member has its share")
            read_more()
        with target.raw(node) as connection:
            assert kind(connection, group) == [("classic", "Stable")]
    finally:
        for reader in readers:
            reader.close()
    assert not [failed for each in (*gone, *readers) for failed in each.failed]
    seen = Counter(value for each in (*gone, *readers) for value in each.seen)
    assert len(seen) == 4 * sent
    assert set(seen.values()) == {1}
