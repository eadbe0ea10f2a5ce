"""Resets of a group's offsets: kafka-consumer-groups.sh and `tailrace group reset` make one plan, everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from typer.testing import CliRunner

from support import java_tools as tools
from support.java_tools import JavaTools, Shell
from support.stage import coordinator, create_topic, unique
from support.targets import Target
from support.waiting import HUNG_S
from tailrace.cli.daily import app

pytestmark = [pytest.mark.by("java"), pytest.mark.capability("reset committed offsets")]
COUNTS, START, COMMITTED = (10, 4, 0), 2, {0: 5, 1: 1}  # of three partitions; the log of the first begins at 2
BASE_MS = 1_790_000_000_000  # a record is a second later than the one before
AT = "2026-09-21T14:13:23.500"  # between the records with offset 3 and 4


class Staged(NamedTuple):
    """A group with commits, without members."""

    target: Target
    shell: Shell
    group: str
    topic: str

    def kafkas(self, *arguments: str, execute: bool = False) -> list[str]:
        """The plan of Kafka's tool."""
        action = "--execute" if execute else "--dry-run"
        words = ("--reset-offsets", "--group", self.group, *arguments, "--export", action)
        return self._rows(self.shell.out(tools.GROUPS, *words))

    def ours(self, *arguments: str) -> list[str]:
        """The plan of the command."""
        words = ["group", "reset", self.group, *arguments, "--export", "--bootstrap", self.target.bootstrap]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        return self._rows(done.stdout)

    def committed(self) -> list[str]:
        """What is committed now, as a plan."""
        return self.ours("--to-current", "--all-topics")

    def _rows(self, text: str) -> list[str]:
        """With `t` for the topic's name, of which each run has another."""
        found = [line.replace('"', "") for line in text.splitlines()]
        return sorted(line.replace(self.topic, "t") for line in found if line.startswith(self.topic))


@pytest.fixture
def staged(target: Target, jvm: JavaTools) -> Staged:
    topic, group = create_topic(target, partitions=len(COUNTS)).name, unique("group")
    coordinator(target, group)
    producer = KafkaProducer(bootstrap_servers=target.bootstrap)
    for partition, count in enumerate(COUNTS):
        for number in range(count):
            producer.send(topic, b"x", partition=partition, timestamp_ms=BASE_MS + number * 1000).get(HUNG_S)
    producer.close()
    admin = KafkaAdminClient(bootstrap_servers=target.bootstrap)
    admin.delete_records({TopicPartition(topic, 0): START})
    admin.close()
    consumer = KafkaConsumer(bootstrap_servers=target.bootstrap, group_id=group, enable_auto_commit=False)
    offsets = {TopicPartition(topic, n): OffsetAndMetadata(offset, "", -1) for n, offset in COMMITTED.items()}
    consumer.assign(list(offsets))
    consumer.commit(offsets)
    consumer.close()
    return Staged(target, Shell(jvm, target.bootstrap), group, topic)


CASES = (
    (("--to-earliest",), ["t,0,2", "t,1,0", "t,2,0"]),
    (("--to-latest",), ["t,0,10", "t,1,4", "t,2,0"]),
    (("--to-current",), ["t,0,5", "t,1,1", "t,2,0"]),
    (("--to-offset", "1"), ["t,0,2", "t,1,1", "t,2,0"]),
    (("--to-offset", "99"), ["t,0,10", "t,1,4", "t,2,0"]),
    (("--to-datetime", AT), ["t,0,4", "t,1,4", "t,2,0"]),
    (("--to-datetime", AT + "+01:00"), ["t,0,2", "t,1,0", "t,2,0"]),
    (("--by-duration", "P20000D"), ["t,0,2", "t,1,0", "t,2,0"]),
)
OF_COMMITTED = (
    (("--shift-by", "-4"), ["t,0,2", "t,1,0"]),
    (("--shift-by", "2"), ["t,0,7", "t,1,3"]),
    (("--shift-by", "99"), ["t,0,10", "t,1,4"]),
    (("--to-earliest",), ["t,0,2", "t,1,0"]),
)


def test_both_tools_plan_the_same_resets(staged: Staged) -> None:
    for words, expected in CASES:
        assert staged.kafkas(*words, "--topic", staged.topic) == expected, words
        assert staged.ours(*words, "--topic", staged.topic) == expected, words
    for words, expected in OF_COMMITTED:
        assert staged.kafkas(*words, "--all-topics") == expected, words
        assert staged.ours(*words, "--all-topics") == expected, words
        named = f"{staged.topic}:1"
        assert staged.kafkas(*words, "--topic", named) == staged.ours(*words, "--topic", named) == expected[1:], words
    assert staged.committed() == ["t,0,5", "t,1,1"]  # a plan changes nothing


def test_each_tool_executes_and_reads_the_file_that_the_other_one_writes(staged: Staged, tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    words = ["group", "reset", staged.group, "--to-latest", "--export", "--bootstrap", staged.target.bootstrap]
    file.write_text(CliRunner().invoke(app, words).stdout)
    assert staged.kafkas("--from-file", str(file), execute=True) == ["t,0,10", "t,1,4"]
    assert staged.committed() == ["t,0,10", "t,1,4"]
    told = staged.shell.out(
        tools.GROUPS, "--reset-offsets", "--group", staged.group, "--all-topics", "--shift-by", "-1", "--export"
    )
    file.write_text("\n".join(line for line in told.splitlines() if staged.topic in line))
    assert staged.ours("--from-file", str(file), "--execute") == ["t,0,9", "t,1,3"]
    assert staged.committed() == ["t,0,9", "t,1,3"]
