"""Groups of both protocols in `__consumer_offsets`, read by a version before migration and by this one.

While versions are mixed a shard may move from a coordinator of one to one of the other, and back. The old version is
the last one that serves the consumer protocol without migration; and that of `test_two_versions.py`, which has no
consumer protocol, for a group that is a classic one again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.classic_members import ClassicMember
from support.consumer_groups import Consumer, ConsumerDriver, topic_id
from support.old_version import NoOldVersion, revision, unpack
from tailrace.errors import ErrorCode
from tailrace.state import KeyValue
from tailrace_coordinator.groups.offsets import OffsetToCommit

WITHOUT_MIGRATION = "b1532895cea1900063ee060b82c8611e1e83a18f"
PROGRAM = Path(__file__).parents[1] / "support" / "old_groups.py"


class Old:
    """The old version, which reads what this one wrote and writes on."""

    def __init__(self, folder: Path, commit: str) -> None:
        self._environ = {**os.environ, **unpack(folder, commit)}

    def read(self, log: list[KeyValue], leaver: str, *classic: str) -> tuple[Any, list[KeyValue]]:
        """What it sees of the group, how it answers a classic member, and the log after a member left it there."""
        lines = [json.dumps([key.hex(), None if value is None else value.hex()]) for key, value in log]
        done = subprocess.run(
            [sys.executable, str(PROGRAM), leaver, *classic],
            input="\n".join(lines),
            env=self._environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        seen, *records = map(json.loads, done.stdout.splitlines())
        written = [(bytes.fromhex(key), None if value is None else bytes.fromhex(value)) for key, value in records]
        return seen, [*log, *written]


def step(driver: ConsumerDriver, *members: ClassicMember | Consumer) -> None:
    """Lets the members go on until each has its partitions."""
    for _ in range(8):
        driver.advance(1_000)
        for member in members:
            if isinstance(member, Consumer):
                member.beat()
            else:
                member.step()


@pytest.fixture
def upgraded() -> tuple[ConsumerDriver, ClassicMember, Consumer]:
    """A group that this version has upgraded, with a committed offset."""
    driver = ConsumerDriver({"t": 4})
    classic, consumer = ClassicMember(driver, session_ms=45_000), Consumer(driver, "new")
    classic.join()
    offset = OffsetToCommit("t", 0, 42, -1, "", topic_id("t"))
    assert driver.commit_as("g", classic.member_id, classic.generation, offset) == [ErrorCode.NONE]
    consumer.enter("t")
    step(driver, classic, consumer)
    assert len(classic.owned["t"]) == len(consumer.owned["t"]) == 2
    return driver, classic, consumer


def old(folder: Path, commit: str) -> Old:
    try:
        return Old(folder, commit)
    except NoOldVersion as absent:
        pytest.skip(str(absent))


def test_a_group_of_both_protocols_goes_to_an_old_coordinator_and_back(
    tmp_path: Path, upgraded: tuple[ConsumerDriver, ClassicMember, Consumer]
) -> None:
    driver, classic, _ = upgraded
    seen, log = old(tmp_path, WITHOUT_MIGRATION).read(driver.log, "new", classic.member_id)
    answers = ["UNKNOWN_MEMBER_ID", "INCONSISTENT_GROUP_PROTOCOL"]  # so the policy is to be "disabled" meanwhile
    expected = {"type": "consumer", "state": "Stable", "members": 2, "offsets": [["t", 0, 42]], "answers": answers}
    assert seen == expected
    driver = ConsumerDriver({"t": 4}, log=log, now_ms=driver.now_ms)
    classic.driver = driver
    step(driver, classic)
    assert classic.owned == {"t": {0, 1, 2, 3}}  # the old version does not downgrade: it stays a consumer group
    assert driver.fetch("g")["t", 0].offset == 42
    assert driver.list_groups()[0].group_type == "consumer"


def test_a_group_that_was_downgraded_goes_to_an_old_coordinator_and_back(
    tmp_path: Path, upgraded: tuple[ConsumerDriver, ClassicMember, Consumer]
) -> None:
    driver, classic, _ = upgraded
    driver.beat("new", -1)
    step(driver, classic)
    for folder, commit in (("before", WITHOUT_MIGRATION), ("baseline", revision())):
        seen, log = old(tmp_path / folder, commit).read(driver.log, classic.member_id)
        assert seen == {"type": "classic", "state": "Stable", "members": 1, "offsets": [["t", 0, 42]]}
        after = ConsumerDriver({"t": 4}, log=log, now_ms=driver.now_ms)
        consumer = Consumer(after, "again")
        consumer.enter("t")  # of what the old version left
        step(after, consumer)
        assert after.fetch("g")["t", 0].offset == 42
