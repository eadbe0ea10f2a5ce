"""A group of the consumer protocol (KIP-848): one that came from Apache Kafka, and the offsets of any."""

from typing import Any

import pytest

from support.consumer_groups import Consumer, ConsumerDriver, settle, topic_id
from support.groups import START_MS, Driver, member_of
from tailrace.coordination.group_records import GroupRemoved, OffsetCommitted, encode
from tailrace.errors import ErrorCode
from tailrace.state import ProducerIdAndEpoch
from tailrace_coordinator.groups.classic.group import ClassicGroup
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


def abandoned(log: list[tuple[bytes, bytes | None]]) -> Driver:
    """The group once its members, which stayed with Apache Kafka, were not heard of for their session."""
    driver = Driver(log=log)
    driver.advance(45_000)
    return driver


def test_an_imported_consumer_group_goes_on_with_its_members() -> None:
    before = [encode(OffsetCommitted("g", "t", 0, 42)), encode(GroupRemoved("g"))]
    driver = Driver(log=[*before, *consumer_group("g")])  # KIP-848's upgrade
    (listed,) = driver.list_groups()
    assert (listed.group_type, listed.protocol_type, listed.state) == ("consumer", "consumer", "Stable")
    assert not driver.list_groups(types=["classic"]) and not driver.list_groups("empty")
    other = driver.join("g", protocol_type="connect")
    assert driver.answers[other].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    driver.advance(45_000)
    assert driver.list_groups("empty", types=["consumer"])
    member_of(driver, "g", "t")
    for at in (driver, driver.reloaded()):
        (listed,) = at.list_groups()
        assert (listed.group_type, listed.protocol_type) == ("classic", "consumer")
        assert at.fetch("g")["t", 0].offset == 42


def test_an_imported_consumer_group_is_deleted_for_good() -> None:
    driver = abandoned([*consumer_group("g"), encode(OffsetCommitted("g", "t", 0, 42))])
    assert driver.delete_group("g") == ErrorCode.NONE
    for at in (driver, driver.reloaded()):
        assert not at.list_groups() and not at.fetch("g")
    assert not [key for key, value in compacted(driver.log) if value is not None]  # it stays away for ever


def test_a_member_that_joins_an_imported_consumer_group_leaves_nothing_of_that_in_the_log() -> None:
    driver = abandoned(consumer_group("g"))
    assert [key[1] for key, value in driver.log if value is None] == [8, 7, 5]  # of the member
    member_of(driver, "g", "t")
    assert [key[1] for key, value in compacted(driver.log) if value is not None] == [2]
    ended = [key[1] for key, value in driver.log if value is None]
    assert ended == [8, 7, 5, 6, 3]  # Kafka loads no other order
    kinds = [key[1] for key, _ in driver.log]
    assert kinds.index(2) == len(kinds) - 1


def test_the_first_join_makes_it_classic_before_anybody_is_a_member() -> None:
    driver = abandoned([*consumer_group("g"), encode(OffsetCommitted("g", "t", 0, 42))])  # so does Kafka 4.3.1
    assert driver.answers[driver.join("g")].error_code == ErrorCode.MEMBER_ID_REQUIRED
    (listed,) = driver.list_groups()
    assert (listed.group_type, listed.protocol_type, listed.state) == ("classic", "", "Empty")
    assert driver.fetch("g")["t", 0].offset == 42
    (listed,) = driver.reloaded().list_groups()
    assert listed.group_type == "classic"


def test_a_join_that_is_refused_leaves_it_as_it_was() -> None:
    driver = abandoned(consumer_group("g"))
    assert driver.answers[driver.join("g", "somebody")].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.answers[driver.join("g", protocols=())].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    (listed,) = driver.list_groups()
    assert listed.group_type == "consumer"


def test_requests_of_the_classic_protocol_find_no_member() -> None:
    driver = Driver(log=consumer_group("g"))
    assert driver.heartbeat("g", "m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.answers[driver.sync("g", "m", 1)].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    position = OffsetToCommit("t", 0, 7)
    assert driver.commit(CommitHeader("g", -1, "", None, 9), position) is ErrorCode.UNKNOWN_MEMBER_ID
    driver.advance(45_000)
    assert driver.commit(CommitHeader("g", 1, "m", None, 9), position) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit(CommitHeader("g", -1, "", None, 9), position) == [ErrorCode.NONE]
    assert driver.delete_offsets("g", ("t", 0)) == [ErrorCode.NONE]


@pytest.mark.parametrize("group", [ClassicGroup("g"), ConsumerGroup("g")], ids=lambda group: group.group_type)
def test_without_members_groups_of_every_kind_give_way(group: Group) -> None:
    assert (group.state, group.member_count, group.is_disused) == ("Empty", 0, True)
    assert not group.is_subscribed_to("t")
    group.validate_delete()
    group.validate_offset_delete()
    assert group.retention_begins_ms(OffsetCommitted("g", "t", 0, 1, commit_timestamp_ms=START_MS)) == START_MS
    assert len(group.tombstones()) == 1
    group.validate_offset_fetch(None, -1)


# -- offsets with member epochs (KIP-848, KIP-1251) --------------------------------------------------------------------


@pytest.fixture
def driver() -> ConsumerDriver:
    """Member a: t in epoch 2, u in epoch 3."""
    driver = ConsumerDriver({"t": 2, "u": 2})
    a = Consumer(driver, "a")
    a.enter("t")
    driver.advance(1_000)
    a.beat(topics=["t", "u"])
    settle(driver, a)
    assert a.epoch == 3
    return driver


def commit(driver: ConsumerDriver, member: str, epoch: int, topic: str = "t", version: int = 9) -> Any:
    position = OffsetToCommit(topic, 0, 7, topic_id=topic_id(topic))
    return driver.commit(CommitHeader("g", epoch, member, None, version), position)


@pytest.mark.parametrize(
    ("member", "epoch", "topic", "version", "expected"),
    [
        ("a", 3, "t", 9, [ErrorCode.NONE]),
        ("a", 3, "not-owned", 9, [ErrorCode.NONE]),
        ("a", 2, "t", 9, [ErrorCode.NONE]),  # it owns the partition since then
        ("a", 2, "u", 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 2, "not-owned", 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 1, "t", 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 4, "t", 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 0, "t", 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", -1, "t", 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 3, "t", 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, "t", 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", 3, "t", 8, ErrorCode.UNSUPPORTED_VERSION),
        ("a", 7, "t", 8, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_commit(driver: ConsumerDriver, member: str, epoch: int, topic: str, version: int, expected: object) -> None:
    assert commit(driver, member, epoch, topic, version) == expected


def test_one_partition_of_a_later_epoch_refuses_the_whole_commit(driver: ConsumerDriver) -> None:
    positions = [OffsetToCommit(name, 0, 7, topic_id=topic_id(name)) for name in ("t", "u")]
    assert driver.commit(CommitHeader("g", 2, "a", None, 9), *positions) is ErrorCode.STALE_MEMBER_EPOCH


def test_partitions_that_are_to_be_given_up_may_be_committed(driver: ConsumerDriver) -> None:
    driver.enter("b", "t", "u")
    driver.advance(1_000)
    driver.beat("a", 3)
    assert driver.group().current("a").pending_revocation
    assert commit(driver, "a", 3) == [ErrorCode.NONE] and commit(driver, "a", 2) == [ErrorCode.NONE]


def test_a_commit_is_no_heartbeat(driver: ConsumerDriver) -> None:
    driver.advance(44_000)
    commit(driver, "a", 3)
    driver.advance(1_000)
    assert driver.group().member_count == 0


def test_without_members_anybody_commits(driver: ConsumerDriver) -> None:
    driver.beat("a", -1)
    assert commit(driver, "", -1) == [ErrorCode.NONE]
    assert commit(driver, "a", 3) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("group", "member", "epoch", "version", "expected"),
    [
        ("g", "", -1, 3, [ErrorCode.NONE]),
        ("g", "a", 3, 3, [ErrorCode.NONE]),
        ("g", "a", 4, 5, ErrorCode.ILLEGAL_GENERATION),
        ("g", "a", 4, 6, ErrorCode.STALE_MEMBER_EPOCH),  # KIP-1319
        ("g", "x", 3, 6, ErrorCode.UNKNOWN_MEMBER_ID),
        ("unknown", "x", 3, 5, ErrorCode.ILLEGAL_GENERATION),
        ("unknown", "x", 3, 6, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_commit_in_a_transaction(
    driver: ConsumerDriver, group: str, member: str, epoch: int, version: int, expected: object
) -> None:
    position = OffsetToCommit("t", 0, 7, topic_id=topic_id("t"))
    header = CommitHeader(group, epoch, member, None, version)
    producer = ProducerIdAndEpoch(1, 0)
    moment = driver.machine.ended.moment()
    answer = driver.ask(
        lambda token: driver.machine.commit_in_transaction(
            driver.now_ms, token, header, [position], producer, moment, supports_epoch_bump=False
        )
    )
    assert answer == expected


@pytest.mark.parametrize(
    ("member", "epoch", "expected"),
    [
        (None, -1, None),
        ("a", 3, None),
        ("a", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 4, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 3, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_fetch(driver: ConsumerDriver, member: str | None, epoch: int, expected: ErrorCode | None) -> None:
    commit(driver, "a", 3)
    answer = driver.ask(
        lambda token: driver.machine.fetch_offsets(
            driver.now_ms, token, "g", [("t", 0)], member_id=member, member_epoch=epoch
        )
    )
    if expected is None:
        assert answer["t", 0].offset == 7
    else:
        assert answer is expected


def test_offsets_of_subscribed_topics_are_not_deleted_and_do_not_expire(driver: ConsumerDriver) -> None:
    for topic in ("t", "not-owned"):
        commit(driver, "a", 3, topic)
    assert driver.delete_offsets("g", ("t", 0), ("other", 0)) == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
    ]
    for _ in range(8 * 24 * 60 * 2):
        driver.now_ms += 30_000
    driver.expire()
    assert [*driver.fetch("g")] == [("t", 0)]
