"""Leader and follower as Partition has them, over logs in memory: the rules of KIP-101, 279, 497, 841, 903, 966."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tailrace.errors import ApiError, ErrorCode
from tailrace.log.config import LogConfig
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.log import Log
from tailrace.metadata.image import BrokerImage, PartitionImage
from tailrace.records.record import Record, build
from tailrace_broker.partitions.node import NO_EPOCH, Node
from tailrace_broker.partitions.partition import Fetched, FetchIsolation, Partition

LAG_MS = 10_000


class Trio:
    """Three brokers' replicas of one partition, and the controller's part played by the test."""

    def __init__(self, min_isr: int = 2) -> None:
        self.now_ms = 0.0
        self.config = LogConfig(min_insync_replicas=min_isr)
        self.nodes = [Node(n, lambda: self.now_ms, LAG_MS) for n in range(3)]
        brokers = {n: BrokerImage(n, 100 + n, UUID(int=n + 1), fenced=False) for n in range(3)}
        for node in self.nodes:
            node.brokers, node.broker_epoch = brokers, 100 + node.node_id
        self.replicas = [Partition("t", UUID(int=9), 0, self.opener(), node) for node in self.nodes]
        self.image = PartitionImage((0, 1, 2), (0, 1, 2), 0, 1, 0)
        self.publish()

    def opener(self) -> Callable[[], Log]:
        return lambda: Log.open(MemoryFilesystem(), "t-0", self.config)

    def publish(self, **changes: Any) -> None:
        if changes:
            changes.setdefault("partition_epoch", self.image.partition_epoch + 1)
        self.image = replace(self.image, **changes)
        for replica in self.replicas:
            replica.apply(self.image)

    def produce(self, *values: bytes, at: int = 0) -> int:
        batches = [memoryview(build([Record(timestamp=1, value=value)])) for value in values]
        (*_, last) = self.replicas[at].append(batches, 1)
        assert not last.error_code
        return last.last_offset + 1

    def fetch(self, follower: int) -> None:
        """One round trip of a follower."""
        me, leader = self.replicas[follower], self.replicas[self.image.leader]
        position = me.position()
        diverging = leader.on_fetch_position(follower, 100 + follower, position)
        leader.advance()
        records = b""
        if diverging is None:
            records = leader.read(position.offset, 1 << 20, FetchIsolation.LOG_END, min_one=True).read()
        log = leader.log
        me.fetched(Fetched(0, leader.high_watermark, log.log_start_offset, records, diverging), 1)

    def values(self, at: int) -> list[tuple[int, int]]:
        log = self.replicas[at].log
        return [(offset, log.epochs.epoch_at(offset)) for offset in range(log.log_start_offset, log.log_end_offset)]


def test_the_high_watermark_follows_the_slowest_of_the_isr() -> None:
    trio = Trio()
    trio.produce(b"a", b"b")
    leader = trio.replicas[0]
    assert leader.high_watermark == 0
    trio.fetch(1)
    trio.fetch(1)
    assert leader.high_watermark == 0, "2 has nothing yet"
    trio.fetch(2)
    trio.fetch(2)
    assert leader.high_watermark == 2
    trio.fetch(1)
    assert trio.replicas[1].high_watermark == 2


def test_under_min_isr_the_high_watermark_stands_still() -> None:
    trio = Trio(min_isr=2)
    trio.publish(isr=(0,))
    trio.now_ms = LAG_MS + 1  # or the others would count as about to come back
    trio.produce(b"a")
    leader = trio.replicas[0]
    assert not leader.enough_replicas
    assert leader.high_watermark == 0
    trio.publish(isr=(0, 1))
    assert leader.enough_replicas
    assert leader.high_watermark == 0
    trio.fetch(1)
    trio.fetch(1)
    assert leader.high_watermark == 1


def test_alone_in_an_isr_of_one_the_leader_commits_at_once() -> None:
    trio = Trio(min_isr=1)
    trio.publish(isr=(0,))
    trio.now_ms = LAG_MS + 1  # or the others would count as about to come back
    trio.produce(b"a")
    assert trio.replicas[0].high_watermark == 1


def test_an_image_does_not_commit_what_a_single_replica_has_still_to_flush() -> None:
    """flush.messages: news of the partition come while its flush is on the way."""
    config = LogConfig(flush_messages=1)
    partition = Partition(
        "t", UUID(int=9), 0, lambda: Log.open(MemoryFilesystem(), "t-0", config), Node(0, lambda: 0.0)
    )
    image = PartitionImage((0,), (0,), 0, 1, 0)
    partition.apply(image)
    partition.append([memoryview(build([Record(timestamp=1, value=b"a")]))], 1)
    flush = partition.log.begin_flush(1, everything=True)
    assert flush is not None
    partition.apply(replace(image, partition_epoch=1))
    assert partition.high_watermark == 0
    flush.run()
    partition.log.finish_flush(flush)
    partition.flushed()
    assert partition.advance()
    assert partition.high_watermark == 1


def test_what_came_before_a_damaged_batch_is_to_be_flushed_before_a_follower_tells_of_it() -> None:
    trio = Trio()
    trio.config = LogConfig(flush_messages=1)
    leader, follower = trio.replicas[0], Partition("t", UUID(int=9), 0, trio.opener(), trio.nodes[1])
    follower.apply(trio.image)
    trio.produce(b"a", b"b", b"c")
    records = bytearray(leader.read(0, 1 << 20, FetchIsolation.LOG_END, min_one=True).read())
    records[-1] ^= 1
    with pytest.raises(ApiError, match="CORRUPT_MESSAGE"):
        follower.fetched(Fetched(0, 0, 0, bytes(records)), 1)
    assert follower.log.log_end_offset > 0 and follower.syncing


def test_a_follower_that_lags_is_dropped_and_comes_back() -> None:
    trio = Trio()
    leader = trio.replicas[0]
    trio.produce(b"a")
    trio.now_ms = LAG_MS + 1
    trio.fetch(1)
    trio.fetch(1)
    change = leader.propose_isr()
    assert change is not None
    assert change.isr == ((0, 100), (1, 101))
    assert leader.propose_isr() is None, "one change at a time"
    assert leader.high_watermark == 0, "until the controller agrees, 2 still counts"
    leader.isr_answered(change, 0, (0, 1), trio.image.partition_epoch + 1)
    leader.advance()
    assert leader.high_watermark == 1
    trio.image = replace(trio.image, isr=(0, 1), partition_epoch=trio.image.partition_epoch + 1)
    trio.publish()
    trio.fetch(2)
    assert leader.propose_isr() is None, "it has not what is committed"
    trio.fetch(2)
    change = leader.propose_isr()
    assert change is not None
    assert change.isr == ((0, 100), (1, 101), (2, 102))
    trio.produce(b"b")
    trio.fetch(1)
    trio.fetch(1)
    assert leader.high_watermark == 1, "2 is in the maximal ISR already"


def test_a_refused_change_is_kept_until_the_image_comes() -> None:
    trio = Trio()
    leader = trio.replicas[0]
    trio.now_ms = LAG_MS + 1
    trio.produce(b"a")
    trio.fetch(1)
    trio.fetch(1)
    change = leader.propose_isr()
    assert change is not None
    leader.isr_answered(change, ErrorCode.INVALID_UPDATE_VERSION, (), -1)
    assert leader.propose_isr() is None
    trio.publish(isr=(0, 1))
    assert leader.propose_isr() is None
    assert leader.leading is not None
    assert leader.leading.isr == (0, 1)


def test_an_answer_that_is_no_verdict_is_asked_for_again_and_counts_as_taken_meanwhile() -> None:
    """Found by the simulator: a zombie controller's NOT_CONTROLLER left the ISR as it was for ever."""
    trio = Trio()
    leader = trio.replicas[0]
    trio.produce(b"a")
    trio.publish(isr=(0, 1))
    trio.now_ms = LAG_MS + 1
    for follower in (1, 1, 2, 2):
        trio.fetch(follower)
    change = leader.propose_isr()
    assert change is not None
    assert leader.isr_answered(change, ErrorCode.NOT_CONTROLLER, (), -1)
    assert leader.leading is not None
    assert leader.leading.maximal_isr == {0, 1, 2}
    assert not leader.isr_answered(change, 0, (0, 1, 2), trio.image.partition_epoch + 1)
    assert leader.leading.isr == (0, 1, 2)


@pytest.mark.parametrize("change", [{"fenced": True}, {"in_controlled_shutdown": True}, {"broker_epoch": 500}])
def test_who_is_fenced_leaving_or_in_another_life_does_not_join(change: dict[str, Any]) -> None:
    trio = Trio()
    leader = trio.replicas[0]
    trio.publish(isr=(0, 1))
    trio.fetch(2)
    broker = trio.nodes[0].brokers[2]
    trio.nodes[0].brokers = {**trio.nodes[0].brokers, 2: replace(broker, **change)}
    assert leader.propose_isr() is None
    trio.nodes[0].brokers = {**trio.nodes[0].brokers, 2: broker}
    assert leader.propose_isr() is not None


def test_an_earlier_life_of_a_follower_is_refused() -> None:
    trio = Trio()
    leader = trio.replicas[0]
    leader.on_fetch_position(1, 101, trio.replicas[1].position())
    with pytest.raises(ApiError) as refused:
        leader.on_fetch_position(1, 100, trio.replicas[1].position())
    assert refused.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_a_follower_that_has_not_registered_gets_records_but_does_not_count() -> None:
    """It follows an image of its earlier life: a later leader may have been promised that it is in sync."""
    trio = Trio()
    trio.produce(b"one")
    leader = trio.replicas[0]
    for follower in (1, 2):
        assert (
            leader.on_fetch_position(follower, NO_EPOCH, trio.replicas[follower].position()._replace(offset=1)) is None
        )
    leader.advance()
    assert leader.high_watermark == 0
    for follower in (1, 2):
        leader.on_fetch_position(follower, 100 + follower, trio.replicas[follower].position()._replace(offset=1))
    leader.advance()
    assert leader.high_watermark == 1


def test_a_leader_does_not_count_a_follower_whose_log_is_of_a_later_epoch() -> None:
    """It is deposed and has not heard of it; the follower started on an old image and has not either."""
    trio = Trio()
    trio.produce(b"only 0 has it")
    position = trio.replicas[1].position()._replace(offset=1, last_epoch=2)
    with pytest.raises(ApiError) as refused:
        trio.replicas[0].on_fetch_position(1, 101, position)
    assert refused.value.code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert trio.replicas[0].high_watermark == 0


def test_a_deposed_leader_cuts_what_only_it_has() -> None:
    trio = Trio()
    trio.produce(b"a")
    trio.fetch(1)
    trio.fetch(2)
    trio.produce(b"only 0 has it", b"and this")
    trio.publish(leader=1, leader_epoch=2)
    trio.produce(b"b", at=1)
    for _ in range(3):
        trio.fetch(0)
        trio.fetch(2)
    assert trio.values(0) == trio.values(1) == trio.values(2) == [(0, 1), (1, 2)]
    assert trio.replicas[1].high_watermark == 2


def test_a_leader_that_never_wrote_in_its_epoch_agrees_with_its_successor() -> None:
    trio = Trio()
    trio.produce(b"a")
    trio.fetch(1)
    trio.fetch(2)
    trio.publish(leader=1, leader_epoch=2)
    trio.publish(leader=2, leader_epoch=3)
    trio.produce(b"b", at=2)
    for _ in range(3):
        trio.fetch(0)
        trio.fetch(1)
    assert trio.values(0) == trio.values(1) == trio.values(2) == [(0, 1), (1, 3)]


def test_epochs_that_alternate_take_several_rounds_to_agree() -> None:
    """KIP-279: 0 and 1 led in turns without replicating; each has epochs the other lacks."""
    trio = Trio()
    trio.produce(b"a")
    trio.fetch(1)
    for epoch, leader in ((2, 1), (3, 0), (4, 1), (5, 0)):
        trio.publish(leader=leader, leader_epoch=epoch, isr=(leader,))
        trio.produce(b"x", at=leader)
    trio.publish(leader=1, leader_epoch=6, isr=(1,))
    trio.produce(b"y", at=1)
    for _ in range(6):
        trio.fetch(0)
    assert trio.values(0) == trio.values(1)


def test_a_new_leader_is_settled_when_its_epochs_start_is_committed() -> None:
    trio = Trio()
    trio.produce(b"a", b"b")
    trio.fetch(1)
    trio.fetch(2)
    trio.publish(leader=1, leader_epoch=2, isr=(1, 2))
    new = trio.replicas[1]
    assert new.high_watermark == 0
    assert not new.settled
    trio.fetch(2)
    trio.fetch(2)
    assert new.settled
    assert new.high_watermark == 2


def test_a_follower_far_behind_begins_at_the_leaders_start() -> None:
    trio = Trio()
    leader = trio.replicas[0]
    trio.produce(b"a", b"b", b"c")
    trio.publish(isr=(0, 1))
    trio.fetch(1)
    trio.fetch(1)
    leader.log.advance_log_start_offset(3)
    with pytest.raises(ApiError) as refused:
        leader.on_fetch_position(2, 102, trio.replicas[2].position())
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    follower = trio.replicas[2]
    follower.fetched(Fetched(ErrorCode.OFFSET_OUT_OF_RANGE, 3, 3), 1)
    assert follower.position().offset == follower.high_watermark == 3


def test_a_follower_begins_with_the_batch_within_which_its_leaders_log_starts() -> None:
    trio = Trio()
    leader, follower = trio.replicas[0], trio.replicas[2]
    trio.publish(isr=(0, 1))
    records = [Record(timestamp=1, value=b"%d" % n, offset=n) for n in range(3)]
    leader.append([memoryview(build(records)), memoryview(build(records))], 1)
    trio.fetch(1)
    trio.fetch(1)
    leader.log.advance_log_start_offset(4)  # DeleteRecords, which may end anywhere
    follower.fetched(Fetched(ErrorCode.OFFSET_OUT_OF_RANGE, 6, 4), 1)
    trio.fetch(2)
    trio.fetch(2)
    assert follower.log.segments.bases[0] == 3
    assert (follower.log.log_start_offset, follower.log.log_end_offset, follower.high_watermark) == (4, 6, 6)
    assert trio.values(2) == trio.values(0)
    assert follower.read(4, 1 << 20, min_one=True).read() == leader.read(4, 1 << 20, min_one=True).read()


def test_an_empty_follower_begins_where_its_leader_does_that_has_lost_its_end() -> None:
    """It began at 5, where all records had been deleted, and has none whose epoch could say where the two part."""
    trio = Trio()
    leader, follower = trio.replicas[0], trio.replicas[2]
    trio.produce(b"a", b"b")
    follower.fetched(Fetched(ErrorCode.OFFSET_OUT_OF_RANGE, 5, 5), 1)
    assert follower.position().offset == 5
    with pytest.raises(ApiError) as refused:
        leader.on_fetch_position(2, 102, follower.position())
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    follower.fetched(Fetched(ErrorCode.OFFSET_OUT_OF_RANGE, -1, 0), 1)
    trio.fetch(2)
    assert trio.values(2) == trio.values(0)
    follower.fetched(Fetched(ErrorCode.OFFSET_OUT_OF_RANGE, -1, 0), 1)
    assert follower.position().offset == 2, "with a record it parts by epochs"


def test_a_followers_high_watermark_never_goes_back() -> None:
    trio = Trio()
    trio.produce(b"a")
    trio.fetch(1)
    trio.fetch(2)
    trio.fetch(1)
    trio.fetch(2)
    trio.fetch(1)
    assert trio.replicas[1].high_watermark == 1
    trio.replicas[1].fetched(Fetched(0, 0, 0), 1)
    assert trio.replicas[1].high_watermark == 1
