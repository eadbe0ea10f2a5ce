"""kafka-groups.sh and kafka-consumer-groups.sh on groups of all kinds at once: the same answers everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition

from compat.test_group_migration import Reader
from support import java_tools as tools
from support.batches import batch
from support.java_tools import JavaTools, Shell
from support.stage import Topic, coordinator, create_topic, unique
from support.targets import Target
from support.waiting import until

pytestmark = pytest.mark.by("java")
PARTITIONS = 4
PROTOCOLS = {"classic": ("classic",), "consumer": ("consumer",), "mixed": ("classic", "consumer"), "empty": ()}
# Partition, committed offset, end, lag: nothing is left to read but a record of the second partition.
OFFSETS = [["0", "1", "1", "0"], ["1", "1", "2", "1"], ["2", "1", "1", "0"], ["3", "-", "0", "-"]]
Rows = list[list[str]]


class Staged(NamedTuple):
    """Groups by their kind: `mixed` has a member of each protocol, and `empty` only committed offsets."""

    target: Target
    shell: Shell
    topic: Topic
    groups: dict[str, str]

    def rows(self, tool: str, *arguments: str) -> Rows:
        """What a tool prints about these groups, each under the name of its kind."""
        kinds = {name: kind for kind, name in self.groups.items()}
        found = [line.split() for line in self.shell.out(tool, *arguments).splitlines()]
        return sorted([kinds[row[0]], *row[1:]] for row in found if row and row[0] in kinds)

    def listed(self, *filters: str) -> Rows:
        return self.rows(tools.GROUPS, "--list", *filters)

    def described(self, kind: str, *options: str) -> Rows:
        return [row[1:] for row in self.rows(tools.GROUPS, "--describe", "--group", self.groups[kind], *options)]


@pytest.fixture(scope="module")
def staged(target: Target, jvm: JavaTools) -> Iterator[Staged]:
    """The tests only read it."""
    topic = create_topic(target, partitions=PARTITIONS)
    for partition in range(3):
        assert topic.produce(batch(b"x"), partition=partition).error_code == 0
    groups = {kind: committed(target, kind, topic) for kind in PROTOCOLS}
    with ExitStack() as stack:
        for kind, protocols in PROTOCOLS.items():
            members: list[Reader] = []
            for protocol in protocols:
                members.append(Reader(target, groups[kind], topic.name, protocol))
                stack.callback(members[-1].close)
                until_shared(members, kind)
        assert topic.produce(batch(b"y"), partition=1).error_code == 0
        yield Staged(target, Shell(jvm, target.bootstrap), topic, groups)


def until_shared(members: list[Reader], kind: str) -> None:
    share = PARTITIONS // len(members)
    until(lambda: all(each.assigned == share for each in members), f"{len(members)} members of {kind}")


def committed(target: Target, kind: str, topic: Topic) -> str:
    """A new group that has read the first record of three partitions."""
    group = unique(kind)
    coordinator(target, group)
    consumer = Consumer({"bootstrap.servers": target.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic.name, n, 1) for n in range(3)], asynchronous=False)
    consumer.close()
    return group


@pytest.mark.capability("groups of all kinds: kafka-groups.sh, list by type, protocol and state")
def test_groups_are_listed_by_type_protocol_and_state(staged: Staged) -> None:
    """`consumer` is the protocol of a classic group with members, too."""
    classic, empty = ["classic", "Classic", "consumer"], ["empty", "Classic"]
    consumers = [["consumer", "Consumer", "consumer"], ["mixed", "Consumer", "consumer"]]
    for filters, expected in (
        ((), [classic, consumers[0], empty, consumers[1]]),
        (("--consumer",), [classic, consumers[0], empty, consumers[1]]),
        (("--group-type", "classic"), [classic, empty]),
        (("--group-type", "consumer"), consumers),
        (("--protocol", "consumer"), [classic, *consumers]),
        (("--share",), []),
        (("--streams",), []),
    ):
        assert staged.rows(tools.ALL_GROUPS, "--list", *filters) == expected, filters
    assert [row[0] for row in staged.listed()] == ["classic", "consumer", "empty", "mixed"]
    assert staged.listed("--type") == [row[:2] for row in (classic, consumers[0], empty, consumers[1])]
    assert staged.listed("--type", "consumer") == [row[:2] for row in consumers]
    assert staged.listed("--state", "Stable") == [[name, "Stable"] for name in ("classic", "consumer", "mixed")]
    assert staged.listed("--type", "classic,consumer", "--state", "Empty") == [["empty", "Classic", "Empty"]]


@pytest.mark.capability("groups of all kinds: kafka-consumer-groups.sh describes offsets, members and states")
def test_groups_of_all_kinds_are_described(staged: Staged) -> None:
    topic = staged.topic.name
    for kind, members in (("classic", 1), ("consumer", 1), ("mixed", 2)):
        offsets = staged.described(kind)
        assert [row[:5] for row in offsets] == [[topic, *row] for row in OFFSETS], kind
        assert len({row[5] for row in offsets}) == members, kind
        verbose = staged.described(kind, "--offsets", "--verbose")
        assert [[row[0], row[1], *row[3:6]] for row in verbose] == [[topic, *row] for row in OFFSETS], kind
        assert [row[-1] for row in staged.described(kind, "--members")] == [str(PARTITIONS // members)] * members, kind
    assert staged.described("empty") == [[topic, *row, "-", "-", "-"] for row in OFFSETS[:3]]
    assert staged.described("empty", "--members", "--verbose") == []
    everything = f"{topic}:0,1,2,3"
    (classic,) = staged.described("classic", "--members", "--verbose")
    assert classic[3:] == ["4", "-", everything, "-", "-"]
    (consumer,) = staged.described("consumer", "--members", "--verbose")
    assert consumer[3:] == ["4", "2", everything, "2", everything]
    mixed = staged.described("mixed", "--members", "--verbose")
    assert [(row[3], row[4], row[6]) for row in mixed] == [("2", "2", "2")] * 2
    assert all(row[5] == row[7] for row in mixed) and len({row[5] for row in mixed}) == 2
    assert sorted(row[8] for row in mixed) == ["false", "true"]  # upgraded
    states = {kind: staged.described(kind, "--state", "--verbose")[0][2:] for kind in PROTOCOLS}
    assert states == {
        "classic": ["range", "Stable", "-", "-", "1"],
        "consumer": ["uniform", "Stable", "2", "2", "1"],
        "mixed": ["uniform", "Stable", "2", "2", "2"],
        "empty": ["-", "Empty", "-", "-", "0"],
    }
    assert staged.described("mixed", "--state")[0][2:] == ["uniform", "Stable", "2"]


@pytest.mark.capability("groups of all kinds: kafka-consumer-groups.sh changes only a group without members")
def test_only_a_group_without_members_is_reset_and_deleted(staged: Staged) -> None:
    shell, topic = staged.shell, staged.topic.name
    for kind, state in (("classic", "Stable"), ("consumer", "Stable"), ("mixed", "Stable")):
        named = ("--group", staged.groups[kind])
        assert "The group is not empty." in shell.out(tools.GROUPS, "--delete", *named), kind
        reset = shell.out(tools.GROUPS, "--reset-offsets", *named, "--to-earliest", "--all-topics", "--execute")
        assert f"is inactive, but the current state is {state}." in reset, kind
        deleted = shell.out(tools.GROUPS, "--delete-offsets", *named, "--topic", topic)
        assert deleted.count("GroupSubscribedToTopicException") == PARTITIONS, kind
    changed, gone = (committed(staged.target, "changed", staged.topic) for _ in range(2))
    named = ("--group", changed)
    assert "Successful" in shell.out(tools.GROUPS, "--delete-offsets", *named, "--topic", f"{topic}:0")
    shell.out(tools.GROUPS, "--reset-offsets", *named, "--to-latest", "--topic", f"{topic}:1,3", "--execute")
    rows = [line.split()[2:6] for line in shell.out(tools.GROUPS, "--describe", *named).splitlines() if topic in line]
    assert sorted(rows) == [["1", "2", "2", "0"], ["2", "1", "1", "0"], ["3", "0", "0", "0"]]
    some = ("--group", changed, "--group", gone, "--group", staged.groups["mixed"])
    deleted = shell.out(tools.GROUPS, "--delete", *some)
    assert f"Group '{staged.groups['mixed']}' could not be deleted" in deleted
    assert all(f"'{group}'" in deleted.partition("deleted successfully")[2] for group in (changed, gone))
    assert f"Group {gone} not found" in shell.run(tools.GROUPS, "--describe", "--group", gone).out
    assert "GroupIdNotFoundException" in shell.out(tools.GROUPS, "--delete", "--group", gone)
