"""Three brokers in one loop that replicate over their real listeners; the test plays the controller."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import structlog

from support.broker import TOPIC_ID, Running, batch, running
from support.waiting import HUNG_S, turns_until
from tailrace.errors import ErrorCode
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.checkpoints import LOG_START_OFFSET, parse_offsets
from tailrace.log.filesystem.port import join, read_file
from tailrace.log.filesystem.real import RealFile, RealFilesystem
from tailrace.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from tailrace.metadata.records import Endpoint
from tailrace.wire.hot.replica_fetch import encode_replica_fetch
from tailrace.wire.messages import (
    AlterPartitionResponse,
    DeleteRecordsRequest,
    DescribeProducersRequest,
    ListOffsetsRequest,
)
from tailrace_broker.fetch import follower
from tailrace_broker.partitions import recovery
from tailrace_broker.partitions.leader import UNKNOWN_OFFSET
from tailrace_broker.partitions.partition import Partition
from tailrace_broker.partitions.recovery import Recoveries
from tailrace_broker.partitions.topics import Changes
from tailrace_broker.replication import fetcher


class Three:
    """Topic t, partition 0 on brokers 0, 1, 2; `publish` changes its image everywhere."""

    def __init__(self, nodes: list[Running]) -> None:
        self.nodes = nodes
        self.partition = PartitionImage((0, 1, 2), (0, 1, 2), 0, 1, 1)
        self.asked: list[Any] = []
        self.changed = asyncio.Event()
        self.fenced = set[int]()
        for node in nodes:
            node.follower.on_ask = self.ask

    def image(self) -> MetadataImage:
        topic = TopicImage("t", TOPIC_ID, (self.partition,))
        brokers = {}
        for number, node in enumerate(self.nodes):
            endpoint = Endpoint("UNIX-boot", node.address.host, 0)
            brokers[number] = BrokerImage(number, 100 + number, UUID(int=number + 1), (endpoint,), fenced=False)
        brokers[7] = BrokerImage(7, 107, UUID(int=8), fenced=7 in self.fenced)  # which nobody ever sees
        return MetadataImage(
            offset=self.partition.partition_epoch,
            cluster_id="c",
            topics={"t": topic},
            topic_names={TOPIC_ID: "t"},
            brokers=brokers,
        )

    def publish(self, **changes: Any) -> None:
        changes.setdefault("partition_epoch", self.partition.partition_epoch + 1)
        self.partition = replace(self.partition, **changes)
        image = self.image()
        for node in self.nodes:
            node.follower.show(image)

    async def ask(self, message: Any) -> Any:
        """AlterPartition is taken as it comes."""
        row = message.topics[0].partitions[0]
        self.asked.append(row)
        isr = tuple(state.broker_id for state in row.new_isr_with_epochs)
        topic = AlterPartitionResponse.TopicData
        epoch = self.partition.partition_epoch + 1
        answer = topic.PartitionData(
            partition_index=0, error_code=0, leader_id=0, leader_epoch=1, isr=list(isr), partition_epoch=epoch
        )
        asyncio.get_running_loop().call_soon(lambda: self.publish(isr=isr, partition_epoch=epoch))
        self.changed.set()
        return AlterPartitionResponse(
            error_code=0, topics=[topic(topic_id=message.topics[0].topic_id, partitions=[answer])]
        )


@asynccontextmanager
async def three(path: Path, **settings: Any) -> AsyncIterator[Three]:
    async with AsyncExitStack() as stack:
        nodes = []
        for number in range(3):
            home = path / str(number)
            opened = running(home, MetadataImage(cluster_id="c"), node_id=str(number), replicating="yes", **settings)
            nodes.append(await stack.enter_async_context(opened))
        cluster = Three(nodes)
        for number, node in enumerate(nodes):
            await node.broker.publisher.on_epoch(100 + number)
        cluster.publish()
        yield cluster


def delete_below(offset: int) -> DeleteRecordsRequest:
    topic = DeleteRecordsRequest.DeleteRecordsTopic
    want = topic.DeleteRecordsPartition(partition_index=0, offset=offset)
    return DeleteRecordsRequest(topics=[topic(name="t", partitions=[want])], timeout_ms=20_000)


def log(cluster: Three, node: int) -> Any:
    return cluster.nodes[node].broker.topics.by_name[b"t"].partitions[0].log


async def test_acks_all_is_answered_when_every_replica_has_it(tmp_path: Path) -> None:
    async with three(tmp_path, min_insync_replicas="2") as cluster:
        answer = await cluster.nodes[0].produce(0, batch(b"a", b"b"), acks=-1)
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert [log(cluster, node).log_end_offset for node in range(3)] == [2, 2, 2]
        fetched = await cluster.nodes[0].fetch(0, 0)
        assert fetched.high_watermark == 2


async def test_many_in_flight_are_answered_in_order(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        answers = await asyncio.gather(*(cluster.nodes[0].produce(0, batch(b"%d" % n), acks=-1) for n in range(100)))
        assert [answer.base_offset for answer in answers] == list(range(100))


async def test_the_leader_dies_and_the_new_one_goes_on(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        await cluster.nodes[0].produce(0, batch(b"a"), acks=-1)
        cluster.publish(leader=1, leader_epoch=2, isr=(1, 2))
        refused = await cluster.nodes[0].produce(0, batch(b"late"), acks=-1)
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer = await cluster.nodes[1].produce(0, batch(b"b"), acks=-1)
        assert (answer.error_code, answer.base_offset) == (0, 1)
        await turns_until(lambda: 0 in cluster.partition.isr)  # it follows now, and joins
        assert log(cluster, 0).log_end_offset == 2


async def test_what_waits_for_commit_is_refused_when_the_leader_changes(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        first = cluster.nodes[0]
        cluster.publish(replicas=(0, 1, 2, 7), isr=(0, 1, 2, 7))  # 7 never fetches
        waiting = asyncio.create_task(first.produce(0, batch(b"a"), acks=-1))
        await turns_until(lambda: bool(first.broker.topics.by_name[b"t"].partitions[0].commits))
        cluster.publish(leader=1, leader_epoch=2)
        assert (await waiting).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_request_times_out_while_the_isr_does_not_follow(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        cluster.publish(replicas=(0, 1, 2, 7), isr=(0, 1, 2, 7))
        answer = await cluster.nodes[0].produce(0, batch(b"a"), acks=-1, timeout_ms=50)
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert (await cluster.nodes[0].produce(0, batch(b"b"), acks=1)).error_code == 0


async def test_too_few_replicas_are_said_before_the_append(tmp_path: Path) -> None:
    async with three(tmp_path, min_insync_replicas="2") as cluster:
        cluster.publish(isr=(0,), replicas=(0, 7, 8))
        answer = await cluster.nodes[0].produce(0, batch(b"a"), acks=-1)
        assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert log(cluster, 0).log_end_offset == 0
        assert (await cluster.nodes[0].produce(0, batch(b"a"), acks=1)).error_code == 0
        fetched = await cluster.nodes[0].fetch(0, 0)
        assert (fetched.high_watermark, fetched.records) == (0, b"")


async def test_a_new_leader_does_not_tell_end_offsets_it_cannot_know(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        await cluster.nodes[0].produce(0, batch(b"a"), acks=-1)
        new = cluster.nodes[1]
        cluster.publish(leader=1, leader_epoch=2, isr=(1, 7), replicas=(0, 1, 2, 7))
        partition = new.broker.topics.by_name[b"t"].partitions[0]
        partition.high_watermark = 0
        topic = ListOffsetsRequest.ListOffsetsTopic
        want = topic.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
        request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic(name="t", partitions=[want])])
        answer = await new.client.ask(request, timeout_ms=60_000, version=7)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.OFFSET_NOT_AVAILABLE


async def test_deleted_records_are_gone_everywhere_before_the_answer(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        await cluster.nodes[0].produce(0, batch(b"a", b"b", b"c"), acks=-1)
        answer = await cluster.nodes[0].client.ask(delete_below(2), timeout_ms=60_000)
        row = answer.topics[0].partitions[0]
        assert (row.error_code, row.low_watermark) == (0, 2)
        assert [log(cluster, node).log_start_offset for node in range(3)] == [2, 2, 2]
        for node in cluster.nodes:  # and a crash of all of them brings nothing back
            (log_dir,) = node.broker.storage.dirs
            assert parse_offsets(read_file(RealFilesystem(), join(log_dir.path, LOG_START_OFFSET))) == {("t", 0): 2}


@pytest.mark.parametrize("heard", [0, UNKNOWN_OFFSET], ids=["heard", "never heard"])
async def test_records_are_deleted_while_a_broker_is_down(tmp_path: Path, heard: int) -> None:
    """As in Kafka the low watermark is that of the live replicas; one that was not heard may have it all."""
    async with three(tmp_path) as cluster:
        first = cluster.nodes[0]
        await first.produce(0, batch(b"a", b"b", b"c"), acks=-1)
        cluster.publish(replicas=(0, 1, 7), isr=(0, 1, 7))
        partition = first.broker.topics.by_name[b"t"].partitions[0]
        leading = partition.leading
        assert leading is not None
        leading.replicas[7].log_start_offset = heard
        waiting = asyncio.create_task(first.client.ask(delete_below(2), timeout_ms=60_000))
        await turns_until(lambda: bool(partition.deletions) and leading.replicas[1].log_start_offset == 2)
        assert not any(wait.done for _, wait, _ in partition.deletions)
        cluster.fenced.add(7)
        cluster.publish(isr=(0, 1))
        row = (await waiting).topics[0].partitions[0]
        assert (row.error_code, row.low_watermark) == (0, 2)


async def test_a_new_replica_comes_to_what_its_leader_has_after_a_delete_within_a_batch(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        cluster.publish(replicas=(0, 1), isr=(0, 1))
        await cluster.nodes[0].produce(0, batch(b"a", b"b", b"c"), acks=-1)
        await cluster.nodes[0].client.ask(delete_below(2), timeout_ms=60_000)
        cluster.publish(replicas=(0, 1, 2))
        await turns_until(lambda: 2 in cluster.partition.isr)
        assert [(log(cluster, node).log_start_offset, log(cluster, node).log_end_offset) for node in range(3)] == [
            (2, 3)
        ] * 3


async def test_a_follower_tells_of_the_same_producers_as_its_leader(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        row = batch(b"a", b"b", producer_id=8, producer_epoch=2, base_sequence=5)
        await cluster.nodes[0].produce(0, row, acks=-1)
        topic = DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0])
        answers = [
            (await node.client.ask(DescribeProducersRequest(topics=[topic]), timeout_ms=60_000)).topics[0].partitions[0]
            for node in cluster.nodes
        ]
        assert [row.error_code for row in answers] == [0, 0, 0]
        told = [[one.to_dict() for one in row.active_producers] for row in answers]
        assert told[0] == told[1] == told[2]
        assert (told[0][0]["producer_id"], told[0][0]["last_sequence"]) == (8, 6)


async def test_consumers_read_from_the_replica_in_their_rack(tmp_path: Path) -> None:
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    async with three(tmp_path, replica_selector_class=selector) as cluster:
        await cluster.nodes[0].produce(0, batch(b"a"), acks=-1)
        image = cluster.image()
        racks = {n: replace(broker, rack=f"r{n}") for n, broker in image.brokers.items()}
        for node in cluster.nodes:
            node.follower.move(brokers=racks)
        sent = await cluster.nodes[0].fetch(0, 0, rack_id="r2")
        assert (sent.preferred_read_replica, sent.records) == (2, b"")
        await turns_until(lambda: cluster.nodes[2].broker.topics.by_name[b"t"].partitions[0].high_watermark == 1)
        read = await cluster.nodes[2].fetch(0, 0, rack_id="r2")
        assert (read.error_code, read.high_watermark, bool(read.records)) == (0, 1, True)


@pytest.mark.parametrize("extra", [0, 2])
async def test_a_follower_tells_of_a_cut_where_it_cut_records(tmp_path: Path, extra: int) -> None:
    """An epoch that it began as a leader without a record is forgotten without a word."""
    async with three(tmp_path) as cluster:
        await cluster.nodes[0].produce(0, batch(b"a"), acks=-1)
        follower = log(cluster, 1)
        follower.note_epoch(5, 1)
        for _ in range(extra):
            follower.append([bytearray(batch(b"lost"))], 5, 1, from_client=False)
        assert follower.log_end_offset == 1 + extra
        with structlog.testing.capture_logs() as lines:
            cluster.publish(leader_epoch=6)
            assert (await cluster.nodes[0].produce(0, batch(b"b"), acks=-1)).error_code == 0
        cuts = [line for line in lines if "to agree with the leader" in line["event"]]
        assert len(cuts) == (extra > 0), lines
        assert follower.log_end_offset == log(cluster, 0).log_end_offset == 2


async def test_a_consumer_is_sent_to_a_replica_in_sync_and_of_several_to_the_best_as_kafka_says(tmp_path: Path) -> None:
    """One that lags may lag for ever, and its readers with it; of equal ones the last to catch up, then the highest."""
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    async with three(tmp_path, replica_selector_class=selector) as cluster:
        first = cluster.nodes[0]
        await first.produce(0, batch(b"a"), acks=-1)
        racks = {n: replace(broker, rack="r" if n else "") for n, broker in cluster.image().brokers.items()}
        first.follower.move(brokers=racks)
        partition = first.broker.topics.by_name[b"t"].partitions[0]
        assert partition.leading is not None
        followers = partition.leading.replicas

        def preferred() -> int:
            return first.listener.data_path.fetch_parts.hints.preferred_replica(partition, "r", 0)

        followers[1].log_end_offset = followers[2].log_end_offset = 1
        followers[1].caught_up_ms, followers[2].caught_up_ms = 8.0, 7.0
        assert preferred() == 1
        followers[1].caught_up_ms = 7.0
        assert preferred() == 2
        followers[1].log_end_offset = 2
        assert preferred() == 1
        partition.isr = (0, 2)
        assert preferred() == 2
        partition.isr = (0,)
        assert preferred() == -1


@pytest.mark.parametrize(("cached_epoch", "leads"), [(1, True), (2, False)])
async def test_a_cached_image_is_believed_about_the_life_that_was_closed_only(
    tmp_path: Path, cached_epoch: int, leads: bool
) -> None:
    async with running(tmp_path, MetadataImage(cluster_id="c", offset=5)):
        """It is closed cleanly under broker epoch 1."""
    cached = MetadataImage(
        cluster_id="c",
        topics={"t": TopicImage("t", TOPIC_ID, (PartitionImage((0, 1, 2), (0, 1, 2), 0, 1, 1),))},
        topic_names={TOPIC_ID: "t"},
        brokers={0: BrokerImage(0, cached_epoch, UUID(int=1), fenced=False)},
        offset=5,
    )
    async with running(tmp_path, cached) as again:
        assert (again.broker.topics.by_name[b"t"].partitions[0].leading is not None) is leads


async def test_a_replica_that_is_reassigned_away_goes_from_the_disk(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        await cluster.nodes[0].produce(0, batch(b"a"), acks=-1)
        cluster.publish(replicas=(0, 1), isr=(0, 1))
        assert not cluster.nodes[2].broker.storage.holds_data("t", 0)
        assert (await cluster.nodes[0].produce(0, batch(b"b"), acks=-1)).error_code == 0


async def test_a_throttle_holds_back_who_catches_up_and_not_the_isr(tmp_path: Path) -> None:
    """KIP-73, on the leader's side."""
    async with three(tmp_path) as cluster:
        first, last = cluster.nodes[0], cluster.nodes[2]
        configs = {
            (2, "t"): {"leader.replication.throttled.replicas": "*"},
            (4, "0"): {"leader.replication.throttled.rate": "1000"},
        }
        first.follower.move(configs=configs)
        await first.produce(0, batch(b"x" * 5000), acks=-1)
        assert first.listener.data_path.fetch_parts.leader_throttle.wait_ms() == 0, "members of the ISR are not counted"
        following = last.broker.topics.by_name[b"t"].partitions[0]
        last.replicas.on_changes(Changes([], [], [following]))
        cluster.publish(isr=(0, 1))
        first.follower.move(configs=configs)
        partition = first.broker.topics.by_name[b"t"].partitions[0]
        assert partition.leading is not None
        partition.leading.replicas[2].caught_up_ms = float("-inf")
        await first.produce(0, batch(b"x" * 5000), acks=-1)
        assert (partition.throttled_for(1), partition.throttled_for(2)) == (False, True)
        last.replicas.on_changes(Changes([following], [], []))
        await turns_until(lambda: log(cluster, 2).log_end_offset == 2)
        assert first.listener.data_path.fetch_parts.leader_throttle.wait_ms() > 3000


async def test_a_follower_fetches_on_when_its_flush_is_done(tmp_path: Path) -> None:
    """flush.messages: acks=all means that every replica has it on the disk."""
    async with three(tmp_path) as cluster:
        for node in cluster.nodes:
            node.follower.move(configs={(2, "t"): {"flush.messages": "1"}})
        answer = await cluster.nodes[0].produce(0, batch(b"a", b"b"), acks=-1)
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert [log(cluster, node).recovery_point for node in range(3)] == [2, 2, 2]


async def test_a_follower_says_nothing_of_what_it_has_not_flushed(tmp_path: Path) -> None:
    async with three(tmp_path) as cluster:
        for node in cluster.nodes:
            node.follower.move(configs={(2, "t"): {"flush.messages": "1"}})
        leading = cluster.nodes[0].broker.topics.by_name[b"t"].partitions[0].leading
        flusher: Any = cluster.nodes[1].broker.wakeups.flusher
        asked, flushes = 0, flusher.request

        def request(partition: Any) -> Any:
            nonlocal asked
            asked += 1
            return asyncio.get_running_loop().create_task(asyncio.sleep(0))

        flusher.request = request
        await cluster.nodes[0].produce(0, batch(b"a"), acks=1)
        assert leading is not None
        await turns_until(lambda: asked >= 3 or leading.replicas[1].log_end_offset > 0)
        assert leading.replicas[1].log_end_offset <= 0
        flusher.request = flushes
        await turns_until(lambda: leading.replicas[1].log_end_offset == 1)


async def test_many_new_replicas_are_opened_in_rounds(tmp_path: Path) -> None:
    """Thousands of logs made in one go would hold up heartbeats, and the broker would be fenced."""
    async with three(tmp_path) as cluster:
        many = tuple(cluster.partition for _ in range(120))
        cluster.partition = replace(cluster.partition, partition_epoch=9)
        base = cluster.image()
        image = replace(base, offset=9, topics={"t": TopicImage("t", TOPIC_ID, many)})
        for node in cluster.nodes:
            node.follower.show(image)
        followed = cluster.nodes[1].broker.topics.by_name[b"t"].partitions
        assert sum(partition.opened is not None for partition in followed.values()) <= 1
        led = cluster.nodes[0].broker.topics.by_name[b"t"].partitions
        await turns_until(lambda: all(partition.leading is not None for partition in led.values()))
        answers = await asyncio.gather(*(cluster.nodes[0].produce(n, batch(b"a"), acks=-1) for n in range(120)))
        assert [answer.error_code for answer in answers] == [0] * 120


async def test_who_catches_up_does_not_starve_the_others(tmp_path: Path) -> None:
    """Replica 2 lacks 60 batches of partition 0, fetched one a round; partition 1 is answered meanwhile."""
    async with three(tmp_path, replica_fetch_max_bytes="100000") as cluster:
        two = (replace(cluster.partition, isr=(0, 1)), cluster.partition)
        base = cluster.image()
        image = replace(base, offset=9, topics={"t": TopicImage("t", TOPIC_ID, two)})
        last = cluster.nodes[2]
        for node in cluster.nodes:
            node.follower.move(
                **{name: getattr(image, name) for name in ("offset", "topics", "topic_names", "brokers")}
            )
        behind, other = (last.broker.topics.by_name[b"t"].partitions[index] for index in (0, 1))
        last.replicas.on_changes(Changes([], [], [behind, other]))
        big = batch(b"x" * 90_000)
        await asyncio.gather(*(cluster.nodes[0].produce(0, big, acks=1) for _ in range(60)))
        last.replicas.on_changes(Changes([behind, other], [], []))
        progress = []
        for n in range(10):
            assert (await cluster.nodes[0].produce(1, batch(b"%d" % n), acks=-1)).error_code == 0
            progress.append(behind.log.log_end_offset)
        assert progress[0] < progress[-1] < 60
        await turns_until(lambda: behind.log.log_end_offset == 60)


async def test_the_lag_is_what_the_leaders_last_answer_left_to_fetch(tmp_path: Path) -> None:
    """Kafka's MaxLag. Replica 2 is out of sync and gets one of ten committed batches with each answer."""
    async with three(tmp_path, replica_fetch_max_bytes="100000") as cluster:
        await cluster.nodes[0].produce(0, batch(b"a"), acks=-1)
        last = cluster.nodes[2]
        behind = last.broker.topics.by_name[b"t"].partitions[0]
        last.replicas.on_changes(Changes([], [], [behind]))
        cluster.publish(isr=(0, 1))
        leading = cluster.nodes[0].broker.topics.by_name[b"t"].partitions[0].leading
        assert leading is not None
        leading.replicas[2].caught_up_ms = float("-inf")
        await asyncio.gather(*(cluster.nodes[0].produce(0, batch(b"x" * 90_000), acks=-1) for _ in range(10)))
        last.replicas.on_changes(Changes([behind], [], []))
        lags = {}
        while behind.log.log_end_offset < 11:
            lags[behind.log.log_end_offset] = last.replicas.max_lag()
            await asyncio.sleep(0)
        assert lags == {1: 0, **{end: 11 - end for end in range(2, 11)}}
        assert last.replicas.max_lag() == 0


class SlowCuts:
    """A thread that cuts a log waits for `go`; nobody else cuts one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fail: OSError | None = None
        self.begun, self.go, truncate = threading.Event(), threading.Event(), RealFile.truncate

        def slow(file: RealFile, size_bytes: int) -> None:
            if threading.current_thread().name.startswith("recovery"):
                self.begun.set()
                assert self.go.wait(HUNG_S)
                if self.fail is not None:
                    raise self.fail
            truncate(file, size_bytes)

        monkeypatch.setattr(RealFile, "truncate", slow)


@asynccontextmanager
async def cutting(path: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> AsyncIterator[tuple[Three, Any]]:
    """Broker 0 led and has three records that the new leader, broker 1, has not; it is about to cut them."""
    async with three(path, **settings) as cluster:
        first, second, third = cluster.nodes
        await first.produce(0, batch(b"a"), acks=-1)
        for node in (second, third):
            partition = node.broker.topics.by_name[b"t"].partitions[0]
            await turns_until(lambda partition=partition: partition.high_watermark == 1)  # type: ignore[misc]
            node.replicas.on_changes(Changes([], [], [partition]))
        for _ in range(3):
            assert (await first.produce(0, batch(b"lost"), acks=1)).error_code == 0
        disk = SlowCuts(monkeypatch)
        cluster.publish(leader=1, leader_epoch=2, isr=(1, 2))
        assert await asyncio.to_thread(disk.begun.wait, HUNG_S)
        try:
            yield cluster, disk
        finally:
            disk.go.set()


async def test_a_follower_that_waits_for_its_disk_to_cut_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cutting(tmp_path, monkeypatch) as (cluster, disk):
        first, second, _ = cluster.nodes
        assert (await first.fetch(0, 0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not first.replicas.followed_count  # nor is its leader asked meanwhile
        assert (await second.produce(0, batch(b"b"), acks=1)).base_offset == 1
        disk.go.set()
        await turns_until(lambda: 0 in cluster.partition.isr)
        assert log(cluster, 0).read(0, 1000).read() == log(cluster, 1).read(0, 1000).read()
        assert (await second.produce(0, batch(b"c"), acks=-1)).base_offset == 2
        partition = first.broker.topics.by_name[b"t"].partitions[0]
        assert (partition.high_watermark >= 1, partition.recovering) == (True, False)


async def test_who_is_elected_while_it_cuts_leads_when_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with cutting(tmp_path, monkeypatch) as (cluster, disk):
        first = cluster.nodes[0]
        cluster.publish(leader=0, leader_epoch=3, isr=(0, 1, 2))
        assert (await first.produce(0, batch(b"b"))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        disk.go.set()
        partition = first.broker.topics.by_name[b"t"].partitions[0]
        await turns_until(lambda: not partition.recovering)
        assert (await first.produce(0, batch(b"b"), acks=-1)).base_offset == 1


async def test_a_topic_that_is_deleted_while_it_is_cut_goes_from_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cutting(tmp_path, monkeypatch) as (cluster, disk):
        first = cluster.nodes[0]
        (log_dir,) = first.broker.storage.dirs
        first.follower.move(topics={}, topic_names={})
        assert (await first.fetch(0, 0)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert log_dir.lent("t", 0)
        disk.go.set()
        await turns_until(lambda: not log_dir.lent("t", 0))
        assert not log_dir.holds("t", 0)
        assert not (Path(log_dir.path) / "t-0").exists()


async def test_a_disk_that_fails_a_cut_goes_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with cutting(tmp_path, monkeypatch) as (cluster, disk):
        broker = cluster.nodes[0].broker
        (log_dir,) = broker.storage.dirs

        def fails(file: RealFile) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(RealFile, "sync", fails)
        disk.go.set()
        await turns_until(lambda: not log_dir.lent("t", 0))
        monkeypatch.undo()
        assert broker.storage.offline == (log_dir,)
        assert (await cluster.nodes[0].fetch(0, 0)).error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_cut_that_fails_though_the_disk_is_sound_is_tried_again_after_a_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_REST_SECONDS", 3600)
    async with cutting(tmp_path, monkeypatch) as (cluster, disk):
        broker = cluster.nodes[0].broker
        partition = broker.topics.by_name[b"t"].partitions[0]
        (log_dir,) = broker.storage.dirs
        cuts: list[object] = []
        change = Recoveries.change

        def noted(self: Recoveries, cut: Any, how: Any) -> bool:
            cuts.append(cut)
            return change(self, cut, how)

        monkeypatch.setattr(Recoveries, "change", noted)
        disk.fail = OSError(24, "Too many open files")
        disk.go.set()
        await turns_until(lambda: not log_dir.lent("t", 0))
        for _ in range(1000):
            await asyncio.sleep(0)
        assert partition.recovering
        assert cuts == []  # the first was under way; no other was begun
        disk.fail = None
        broker.publisher.recoveries.ended(("t", 0))  # as after the rest
        await turns_until(lambda: 0 in cluster.partition.isr)
        assert log(cluster, 0).read(0, 1000).read() == log(cluster, 1).read(0, 1000).read()


async def test_a_broker_that_stops_while_it_cuts_starts_with_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cutting(tmp_path, monkeypatch) as (_, disk):
        asyncio.get_running_loop().call_soon(disk.go.set)
    opened = LogDir.open(RealFilesystem(), str(tmp_path / "0" / "broker-0"), node_id=0, cluster_id="c", now_ms=0)
    found = opened.log("t", 0)
    assert opened.last_shutdown.clean and found is not None
    assert found.log_end_offset == 1


async def show_many(cluster: Three, count: int) -> None:
    """Topic t has so many partitions, all as the first, and they are led."""
    cluster.partition = replace(cluster.partition, partition_epoch=9)
    topics = {"t": TopicImage("t", TOPIC_ID, (cluster.partition,) * count)}
    image = replace(cluster.image(), offset=9, topics=topics)
    for node in cluster.nodes:
        node.follower.show(image)
    led = cluster.nodes[0].broker.topics.by_name[b"t"].partitions
    await turns_until(lambda: all(partition.leading is not None for partition in led.values()))


async def test_a_round_looks_at_what_has_news_and_at_few_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of thousands of followed partitions one has news at a time; no wait of the followers ends by time."""
    monkeypatch.setattr(fetcher, "NAMED_PER_ROUND", 40)
    monkeypatch.setattr(fetcher, "_IN_TURN", 5)
    many, looks, really = 120, list[int](), Partition.position
    async with three(tmp_path, replica_fetch_wait_max_ms="600000") as cluster:
        await show_many(cluster, many)
        answers = await asyncio.gather(*(cluster.nodes[0].produce(n, batch(b"a"), acks=-1) for n in range(many)))
        assert [answer.error_code for answer in answers] == [0] * many
        for _ in range(3):  # rounds that look at what the first answers were about
            assert (await cluster.nodes[0].produce(7, batch(b"a"), acks=-1)).error_code == 0

        def counted(partition: Partition) -> Any:
            looks.append(partition.index)
            return really(partition)

        monkeypatch.setattr(Partition, "position", counted)
        for _ in range(10):
            assert (await cluster.nodes[0].produce(7, batch(b"a"), acks=-1)).error_code == 0
        assert looks.count(7) >= 2 * 10  # of each follower, what it has now
        assert len(looks) < looks.count(7) * many / 10  # 7 has news in every round, and a few others are looked at


@pytest.mark.parametrize("most", [3, 10_000])
async def test_a_leader_that_has_no_session_left_is_followed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Also where one request cannot name all."""
    monkeypatch.setattr(fetcher, "_MOST_NAMED", most)
    monkeypatch.setattr(follower, "_SESSIONS", 0)
    monkeypatch.setattr(fetcher, "NAMED_PER_ROUND", 3)
    async with three(tmp_path) as cluster:
        await show_many(cluster, 8)
        answers = await asyncio.gather(*(cluster.nodes[0].produce(n, batch(b"a"), acks=-1) for n in range(8)))
        assert [answer.error_code for answer in answers] == [0] * 8


async def test_more_partitions_move_in_one_answer_than_a_request_names_new_ones(tmp_path: Path) -> None:
    """The leader re-sends records from each offset that it was told last: those must not count as damage."""
    many = fetcher.NAMED_PER_ROUND + 100
    async with three(tmp_path) as cluster:
        leader, last = cluster.nodes[0], cluster.nodes[2]
        await show_many(cluster, many)
        replicas = list(last.broker.topics.by_name[b"t"].partitions.values())
        await turns_until(lambda: all(replica.opened for replica in replicas))
        last.replicas.on_changes(Changes([], [], replicas))
        answers = await asyncio.gather(*(leader.produce(n, batch(b"a"), acks=1) for n in range(many)))
        assert [answer.error_code for answer in answers] == [0] * many
        with structlog.testing.capture_logs() as lines:
            last.replicas.on_changes(Changes(replicas, [], []))
            await turns_until(lambda: all(replica.log.log_end_offset == 1 for replica in replicas))
            assert (await leader.produce(0, batch(b"b"), acks=-1)).error_code == 0
        assert [line["why"] for line in lines if line["event"] == "a partition cannot follow"] == []


async def test_partitions_that_are_not_followed_any_more_are_forgotten_by_and_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that forgets more than its ceiling is refused."""
    monkeypatch.setattr(fetcher, "_MOST_NAMED", 4)
    really, forgotten = encode_replica_fetch, list[int]()

    def encode(fetch: Any, *given: Any) -> bytes:
        if fetch.replica_id == 2:
            forgotten.append(sum(len(indexes) for _, indexes in fetch.forgotten))
        return really(fetch, *given)

    async with three(tmp_path) as cluster:
        await show_many(cluster, 12)
        last = cluster.nodes[2]
        answers = await asyncio.gather(*(cluster.nodes[0].produce(n, batch(b"a"), acks=-1) for n in range(12)))
        assert [answer.error_code for answer in answers] == [0] * 12
        monkeypatch.setattr(fetcher, "encode_replica_fetch", encode)
        replicas = list(last.broker.topics.by_name[b"t"].partitions.values())
        last.replicas.on_changes(Changes([], [], replicas[1:]))
        assert (await cluster.nodes[0].produce(0, batch(b"b"), acks=-1)).error_code == 0
        await turns_until(lambda: sum(forgotten) == 11)
    assert max(forgotten) <= 4
