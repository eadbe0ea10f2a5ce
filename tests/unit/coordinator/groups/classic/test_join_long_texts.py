"""Ids, names and times at their largest: what no record can hold is refused, and nothing else comes to harm."""

from __future__ import annotations

from typing import Any

import pytest

from support.groups import START_MS, Driver
from tailrace.coordination.group_records import OffsetCommitted, decode
from tailrace.errors import ErrorCode
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.offsets import CommitHeader, OffsetToCommit

LONGEST = 32_767
LATEST = 2**63 - 1


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize(
    "options", [{"client_id": "c" * LONGEST}, {"instance": "i" * LONGEST}, {"instance": "é" * 16_383}]
)
def test_a_member_id_that_no_record_can_hold_is_not_given(version: int, options: dict[str, Any]) -> None:
    driver = Driver()
    answer = driver.answers[driver.join(version=version, **options)]
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")
    assert driver.machine.groups == {}


def test_the_longest_member_id_is_in_the_log_and_read_again() -> None:
    driver = Driver()
    token = driver.join(instance="i" * (LONGEST - len("-uuid1")))
    driver.advance(0)
    member = driver.answers[token].member_id
    assert len(member) == LONGEST
    driver.sync("g", member, 1, {member: b"all"})
    assert driver.reloaded().heartbeat("g", member, 1) is ErrorCode.NONE


@pytest.mark.parametrize(
    "options",
    [
        {"protocols": tuple((f"p{number}", b"") for number in range(1_000))},
        {"protocols": (("p" * 30_000, b""), ("q" * 30_000, b""), ("r" * 30_000, b""), ("s" * 30_000, b""))},
        {"protocol_type": "t" * 32_767, "client_id": "c" * 30_000, "instance": "i" * 20_000},
    ],
)
def test_ids_and_names_count_as_what_a_member_says_of_itself(options: dict[str, Any]) -> None:
    driver = Driver(GroupConfig(max_group_metadata_bytes=100_000))
    answer = driver.answers[driver.join(version=3, **options)]
    assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_long_ids_that_were_given_and_not_used_are_bounded_by_their_bytes() -> None:
    driver = Driver(GroupConfig(max_group_metadata_bytes=100_000))
    codes = [driver.answers[driver.join(client_id="c" * 20_000)].error_code for _ in range(6)]
    assert codes == [ErrorCode.MEMBER_ID_REQUIRED] * 4 + [ErrorCode.GROUP_MAX_SIZE_REACHED] * 2
    assert driver.answers[driver.join()].error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_a_static_member_that_says_too_much_when_it_comes_back_begins_a_rebalance_instead_of_a_record() -> None:
    driver = Driver(GroupConfig(group_initial_rebalance_delay_ms=0, max_record_bytes=2_000))
    token = driver.join(instance="i", protocols=(("range", b"x" * 1_000),))
    driver.advance(0)
    member = driver.answers[token].member_id
    driver.sync("g", member, 1, {member: b"a" * 500})
    written = len(driver.log)
    again = driver.join(instance="i", protocols=(("range", b"x" * 1_900),))
    driver.advance(0)
    assert driver.answers[again].generation_id == 2
    refused = driver.sync("g", driver.answers[again].member_id, 2, {driver.answers[again].member_id: b"a" * 500})
    assert driver.answers[refused].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(driver.log) == written


@pytest.mark.parametrize(
    ("retention_ms", "expires_ms"), [(LATEST, LATEST), (0, START_MS), (-LATEST - 1, START_MS - LATEST - 1), (-1, -1)]
)
def test_a_commit_with_the_longest_retention_is_written(retention_ms: int, expires_ms: int) -> None:
    driver = Driver()
    request = CommitHeader("g", -1, "", None, 4, retention_time_ms=retention_ms)
    assert driver.commit(request, OffsetToCommit("t", 0, LATEST, metadata="é" * 4_096)) == [ErrorCode.NONE]
    (record,) = (decode(key, value) for key, value in driver.log)
    assert isinstance(record, OffsetCommitted)
    assert record.expire_timestamp_ms == expires_ms
