"""Groups of the consumer protocol (KIP-848): the same scripts by bare requests, librdkafka and Java everywhere."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Consumer

from compat.version_table import commit_request, consumer_beat
from support import java_tools as tools
from support.batches import batch
from support.java_tools import JavaTools, Shell
from support.raw import Raw, build
from support.stage import Topic, coordinator, create_topic, unique
from support.targets import Target
from support.waiting import until

HEARTBEAT, DESCRIBE = 68, 69
UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, STALE_MEMBER_EPOCH, NON_EMPTY_GROUP, SUBSCRIBED = 25, 110, 113, 68, 86


@dataclass
class Member:
    """A member that is played by hand: it gives up partitions when it is told to, and says so."""

    connection: Raw
    group: str
    member_id: str
    epoch: int = 0
    owned: dict[Any, list[int]] = field(default_factory=dict)

    def beat(self, **said: Any) -> int:
        """One heartbeat; answers its error code."""
        rows = [{"topic_id": topic_id, "partitions": some} for topic_id, some in self.owned.items()]
        fields = {"topic_partitions": rows, **said}
        answer = self.connection.ask(consumer_beat(self.group, self.member_id, self.epoch, **fields), 1)
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = {row.topic_id: list(row.partitions) for row in answer.assignment.topic_partitions}
        return int(answer.error_code)

    def enter(self, *topics: str, **said: Any) -> int:
        """Joins."""
        if not said:
            said = {"subscribed_topic_names": list(topics)}
        return self.beat(rebalance_timeout_ms=60_000, **said)

    def count(self) -> int:
        """How many partitions it has."""
        return sum(map(len, self.owned.values()))


def described(member: Member) -> Any:
    return member.connection.ask(build(DESCRIBE, group_ids=[member.group]), 1).groups[0]


def settle(*members: Member) -> None:
    """Until the group is stable."""

    def is_stable() -> bool:
        codes = [member.beat() for member in members]
        return not any(codes) and described(members[0]).group_state == "Stable"

    until(is_stable, "a stable group")


@pytest.mark.capability("consumer groups (KIP-848): join, rebalance, leave")
def test_two_members_share_a_topic_and_one_leaves(target: Target) -> None:
    topic, group = create_topic(target, partitions=4), unique("group")
    with target.raw(coordinator(target, group)) as connection:
        a, b = Member(connection, group, "a"), Member(connection, group, "b")
        assert a.enter(topic.name) == 0
        assert (a.epoch, a.owned) == (2, {topic.topic_id: [0, 1, 2, 3]})
        assert b.enter(topic.name) == 0
        assert b.count() == 0
        settle(a, b)
        shown = described(a)
        assert (shown.group_epoch, shown.assignment_epoch, a.epoch, b.epoch) == (3, 3, 3, 3)
        assert sorted(a.owned[topic.topic_id] + b.owned[topic.topic_id]) == [0, 1, 2, 3]
        assert (a.count(), b.count()) == (2, 2)
        left = connection.ask(consumer_beat(group, "b", -1), 1)
        assert (left.error_code, left.member_epoch) == (0, -1)
        settle(a)
        assert (a.epoch, a.owned) == (4, {topic.topic_id: [0, 1, 2, 3]})


@pytest.mark.capability("consumer groups (KIP-848): regular expressions, topics that come")
def test_topics_are_found_by_a_regular_expression_and_when_they_come(target: Target) -> None:
    topic, group, late = create_topic(target, partitions=2), unique("group"), unique("late")
    with target.raw(coordinator(target, group)) as connection:
        member = Member(connection, group, "a")
        assert member.enter(subscribed_topic_regex=f"{topic.name[:-1]}.") == 0
        until(lambda: member.beat() == 0 and member.count() == 2, "the topic of the expression")
        other = Member(connection, unique("group"), "b")
        assert other.enter(late) == 0 and other.count() == 0
        request = {"name": late, "num_partitions": 3, "replication_factor": 1, "assignments": [], "configs": []}
        target.ask(build(19, topics=[request], timeout_ms=10_000, validate_only=False), 7)
        until(lambda: other.beat() == 0 and other.count() == 3, "the topic that came")


@pytest.mark.capability("consumer groups (KIP-848): member epochs of commits and fetches")
def test_only_a_member_in_its_epoch_commits_and_fetches(target: Target) -> None:
    topic, group = create_topic(target), unique("group")
    with target.raw(coordinator(target, group)) as connection:
        member = Member(connection, group, "a")
        member.enter(topic.name)

        def commit(member_id: str, epoch: int) -> int:
            fields = {"generation_id_or_member_epoch": epoch, "member_id": member_id}
            answer = connection.ask(commit_request(group, topic, 9, **fields), 9)
            return int(answer.topics[0].partitions[0].error_code)

        def fetch(member_id: str | None, epoch: int) -> int:
            topics = [{"name": topic.name, "partition_indexes": [0]}]
            asked = {"group_id": group, "member_id": member_id, "member_epoch": epoch, "topics": topics}
            return int(connection.ask(build(9, groups=[asked], require_stable=False), 9).groups[0].error_code)

        assert [commit("a", epoch) for epoch in (2, 1, 3, -1)] == [0, *[STALE_MEMBER_EPOCH] * 3]
        assert (commit("b", 2), commit("", -1)) == (UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER_ID)
        assert [fetch("a", epoch) for epoch in (2, 1, 3)] == [0, STALE_MEMBER_EPOCH, STALE_MEMBER_EPOCH]
        assert (fetch(None, -1), fetch("b", 2)) == (0, UNKNOWN_MEMBER_ID)
        topics = [{"name": topic.name, "partitions": [{"partition_index": 0}]}]
        deleted = connection.ask(build(47, group_id=group, topics=topics), 0)
        assert deleted.topics[0].partitions[0].error_code == SUBSCRIBED
        refused = connection.ask(build(42, groups_names=[group]), 2)
        assert refused.results[0].error_code == NON_EMPTY_GROUP
        removed = connection.ask(build(13, group_id=group, members=[{"member_id": "a"}]), 4)
        assert (removed.error_code, removed.members[0].error_code) == (0, 0)
        assert member.beat() == UNKNOWN_MEMBER_ID
        assert connection.ask(build(42, groups_names=[group]), 2).results[0].error_code == 0


@pytest.mark.capability("consumer groups (KIP-848): a member that does not give up its partitions")
def test_a_member_is_out_after_its_rebalance_timeout(target: Target) -> None:
    topic, group = create_topic(target, partitions=2), unique("group")
    with target.raw(coordinator(target, group)) as connection:
        a, b = Member(connection, group, "a"), Member(connection, group, "b")
        a.beat(rebalance_timeout_ms=1_000, subscribed_topic_names=[topic.name])
        b.enter(topic.name)
        until(lambda: b.beat() == 0 and b.epoch == 3, "the assignment of both")
        keeping = consumer_beat(group, "a", 2)
        until(lambda: connection.ask(keeping, 1).error_code == UNKNOWN_MEMBER_ID, "the end of its time")
        settle(b)
        assert b.count() == 2


@dataclass
class Reader:
    """A consumer of librdkafka in a thread of its own."""

    bootstrap: str
    group: str
    topic: str
    values: list[bytes] = field(default_factory=list)
    assigned: list[int] = field(default_factory=list)
    ending: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
        consumer = Consumer(settings)
        consumer.subscribe([self.topic])
        try:
            while not self.ending.is_set():
                message = consumer.poll(0.1)
                self.assigned = [each.partition for each in consumer.assignment()]
                if message is not None and message.error() is None:
                    self.values.append(message.value() or b"")
        finally:
            consumer.close()

    def close(self) -> None:
        self.ending.set()
        self.thread.join()


def produce(topic: Topic, first: int, count: int) -> None:
    for partition in range(4):
        values = [b"%d-%d" % (partition, number) for number in range(first, first + count)]
        assert topic.produce(batch(*values), partition=partition).error_code == 0


@pytest.mark.by("confluent")
@pytest.mark.capability("consumer groups (KIP-848): every record is read once while members come and go")
def test_members_of_librdkafka_come_and_go(target: Target) -> None:
    topic, group = create_topic(target, partitions=4), unique("group")
    coordinator(target, group)
    readers = [Reader(target.bootstrap, group, topic.name)]
    try:
        produce(topic, 0, 20)
        until(lambda: len(readers[0].values) == 80, "the first records")
        readers.append(Reader(target.bootstrap, group, topic.name))
        until(lambda: [len(each.assigned) for each in readers] == [2, 2], "both have two partitions")
        produce(topic, 20, 20)
        until(lambda: sum(len(each.values) for each in readers) == 160, "the next records")
        readers[1].close()
        until(lambda: len(readers[0].assigned) == 4, "the first one has all again")
        produce(topic, 40, 20)
        until(lambda: sum(len(each.values) for each in readers) == 240, "the last records")
    finally:
        for reader in readers:
            reader.close()
    seen = Counter(value for reader in readers for value in reader.values)
    assert set(seen.values()) == {1}


@pytest.mark.by("java")
@pytest.mark.capability("consumer groups (KIP-848): Java consumer, kafka-consumer-groups.sh")
def test_java_reads_in_a_consumer_group_and_its_tool_deletes_it(target: Target, jvm: JavaTools) -> None:
    shell = Shell(jvm, target.bootstrap)
    topic, group = create_topic(target, partitions=4), unique("group")
    coordinator(target, group)
    produce(topic, 0, 5)
    arguments = ("--topic", topic.name, "--group", group, "--from-beginning", "--max-messages", "20")
    limits = ("--timeout-ms", "40000", "--command-property", "group.protocol=consumer")
    read = shell.out(tools.CONSUMER, *arguments, *limits)
    assert len({line for line in read.splitlines() if line[:1].isdigit()}) == 20
    assert ["Consumer", "Empty"] in [
        line.split()[1:] for line in shell.out(tools.GROUPS, "--list", "--type", "consumer", "--state").splitlines()
    ]
    assert "was successful" in shell.out(tools.GROUPS, "--delete", "--group", group)
