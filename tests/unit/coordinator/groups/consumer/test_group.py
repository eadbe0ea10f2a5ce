"""A group of the consumer protocol (KIP-848) in a log that came from Apache Kafka."""

import pytest

from support.groups import START_MS, Driver, member_of
from tailrace.coordination.group_records import GroupRemoved, OffsetCommitted, encode
from tailrace.errors import ErrorCode
from tailrace_coordinator.groups.classic.group import ClassicGroup
from tailrace_coordinator.groups.classic.leave import Leaver
from tailrace_coordinator.groups.consumer.group import ConsumerGroup
from tailrace_coordinator.groups.group import Group
from tailrace_coordinator.groups.offsets import CommitHeader, OffsetToCommit


def consumer_group(name: str) -> list[tuple[bytes, bytes | None]]:
    """As Kafka's coordinator writes one, with a member."""
    text = len(name).to_bytes(2) + name.encode()
    keys = [bytes((0, kind)) + text + (b"\0\1m" if kind in (5, 7, 8) else b"") for kind in (5, 3, 7, 6, 8)]
    values = (
        "0000" "0000010101" "00ffffffff0000",
        "0000" "00000007" "00",
        "0000" "01" "00",
        "0000" "00000007" "00",
        "0000" "00000007" "00000006" "00010100",
    )  # fmt: skip
    return list(zip(keys, map(bytes.fromhex, values), strict=True))


def compacted(log: list[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes | None]]:
    return list(dict(log).items())


def test_an_imported_consumer_group_is_one_until_a_member_joins() -> None:
    before = [encode(OffsetCommitted("g", "t", 0, 42)), encode(GroupRemoved("g"))]
    driver = Driver(log=[*before, *consumer_group("g")])  # KIP-848's upgrade
    (listed,) = driver.list_groups()
    assert (listed.group_type, listed.protocol_type, listed.state) == ("consumer", "consumer", "Empty")
    assert not driver.list_groups(types=["classic"]) and not driver.list_groups("stable")
    assert driver.list_groups("empty", types=["consumer"]) == (listed,)
    assert driver.describe("g").protocol_type == "consumer"
    member_of(driver, "g", "t")
    for at in (driver, driver.reloaded()):
        (listed,) = at.list_groups()
        assert (listed.group_type, listed.protocol_type) == ("classic", "consumer")
        assert at.fetch("g")["t", 0].offset == 42


def test_an_imported_consumer_group_is_deleted_for_good() -> None:
    driver = Driver(log=[*consumer_group("g"), encode(OffsetCommitted("g", "t", 0, 42))])
    assert driver.delete_group("g") == ErrorCode.NONE
    for at in (driver, driver.reloaded()):
        assert not at.list_groups() and not at.fetch("g")
    assert not [key for key, value in compacted(driver.log) if value is not None]  # it stays away for ever


def test_a_member_that_joins_an_imported_consumer_group_leaves_nothing_of_that_in_the_log() -> None:
    driver = Driver(log=consumer_group("g"))
    member_of(driver, "g", "t")
    assert [key[1] for key, value in compacted(driver.log) if value is not None] == [2]
    ended = [key[1] for key, value in driver.log if value is None]
    assert ended == [8, 7, 6, 5, 3]  # Kafka loads no other order
    kinds = [key[1] for key, _ in driver.log]
    assert kinds.index(2) == len(kinds) - 1


def test_the_first_join_makes_it_classic_before_anybody_is_a_member() -> None:
    driver = Driver(log=[*consumer_group("g"), encode(OffsetCommitted("g", "t", 0, 42))])  # so does Kafka 4.3.1
    assert driver.answers[driver.join("g")].error_code == ErrorCode.MEMBER_ID_REQUIRED
    (listed,) = driver.list_groups()
    assert (listed.group_type, listed.protocol_type, listed.state) == ("classic", "", "Empty")
    assert driver.fetch("g")["t", 0].offset == 42
    (listed,) = driver.reloaded().list_groups()
    assert listed.group_type == "classic"


def test_a_join_that_is_refused_leaves_it_as_it_was() -> None:
    driver = Driver(log=consumer_group("g"))
    assert driver.answers[driver.join("g", "somebody")].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.answers[driver.join("g", protocols=())].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    (listed,) = driver.list_groups()
    assert listed.group_type == "consumer"


def test_it_has_no_members() -> None:
    driver = Driver(log=consumer_group("g"))
    assert driver.heartbeat("g", "m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.answers[driver.sync("g", "m", 1)].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.leave("g", Leaver("m"), Leaver("", "i")) == [
        (Leaver("m"), ErrorCode.UNKNOWN_MEMBER_ID),
        (Leaver("", "i"), ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    position = OffsetToCommit("t", 0, 7)
    assert driver.commit(CommitHeader("g", 1, "m", None, 9), position) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit(CommitHeader("g", -1, "", None, 9), position) == [ErrorCode.NONE]
    assert driver.delete_offsets("g", ("t", 0)) == [ErrorCode.NONE]


@pytest.mark.parametrize("group", [ClassicGroup("g"), ConsumerGroup("g")], ids=lambda group: group.group_type)
def test_without_members_groups_of_every_kind_give_way(group: Group) -> None:
    assert (group.state, group.member_count, group.is_disused) == ("Empty", 0, True)
    assert group.describe().members == ()
    assert not group.is_subscribed_to("t")
    group.validate_delete()
    group.validate_offset_delete()
    assert group.retention_begins_ms(OffsetCommitted("g", "t", 0, 1, commit_timestamp_ms=START_MS)) == START_MS
    assert len(group.tombstones()) == 1
    group.validate_offset_fetch(None, -1)
