"""Transactions as a client of the coordinator sees them: offsets within them, their markers, and who must wait."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

from support.coordinator import MemoryPeers, settle
from support.transaction_cluster import TRANSACTIONS_ID, Cluster, whole
from support.waiting import HUNG_S
from tailrace.clock import ManualClock
from tailrace.coordination.transaction_records import Status, TransactionState
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.metadata.records import Endpoint
from tailrace.net.address import Address
from tailrace.wire import messages as m
from tailrace_coordinator.shards.partition_log import OwnedPartition
from tailrace_coordinator.transactions.decision import SendMarkers
from tailrace_coordinator.transactions.markers import MarkerSender
from tailrace_coordinator.transactions.state import created, prepared, with_partitions


async def test_offsets_count_from_the_commit_on_and_never_after_an_abort() -> None:
    cluster = await Cluster().start()
    producer = await cluster.init()
    for committed, expected in ((True, 5), (False, 5)):
        assert await cluster.add_offsets(producer) == ErrorCode.NONE
        assert await cluster.commit(producer, 5 if committed else 9) == ErrorCode.NONE
        before = -1 if committed else 5
        assert await cluster.fetched() == (before, ErrorCode.NONE)
        assert await cluster.fetched(require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert (await cluster.end(producer, committed)).error_code == ErrorCode.NONE
        await settle()
        assert await cluster.fetched(require_stable=True) == (expected, ErrorCode.NONE)
    assert await cluster.state() == "CompleteAbort"


async def test_a_groups_partition_is_added_before_there_is_a_topic_of_offsets() -> None:
    cluster = await Cluster().start()
    producer = await cluster.init()
    without = {name: each for name, each in whole().topics.items() if name != GROUP_METADATA_TOPIC}
    await cluster.stage.become(replace(whole(), topics=without))
    cluster.stage.caught_up = False
    assert await cluster.add_offsets(producer) == ErrorCode.COORDINATOR_NOT_AVAILABLE  # perhaps it has just been made
    cluster.stage.caught_up = True
    assert await cluster.add_offsets(producer) == ErrorCode.NONE
    described = await cluster.described()
    assert [(each.topic, list(each.partitions)) for each in described.topics] == [(GROUP_METADATA_TOPIC, [3])]
    assert (await cluster.end(producer, True)).error_code == ErrorCode.NONE
    await settle()
    cluster.stage.clock.advance(20)
    await settle()
    assert await cluster.state() == "CompleteCommit"  # nobody can have written offsets


async def test_the_offsets_of_an_open_transaction_survive_the_coordinator() -> None:
    cluster = await Cluster().start()
    producer = await cluster.init()
    await cluster.add_offsets(producer)
    await cluster.commit(producer, 5)
    await cluster.stage.become(whole(offsets_epoch=2, transaction_epoch=4))
    assert await cluster.fetched(require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert (await cluster.end(producer, True)).error_code == ErrorCode.NONE
    await settle()
    await cluster.stage.become(whole(offsets_epoch=3, transaction_epoch=5))
    assert await cluster.fetched(require_stable=True) == (5, ErrorCode.NONE)


async def test_from_version_6_on_a_topic_is_known_by_its_id() -> None:
    """KIP-1319."""
    cluster = await Cluster().start()
    producer = await cluster.init()
    assert await cluster.commit(producer, 5, version=6, topic_id=UUID(int=9)) == ErrorCode.UNKNOWN_TOPIC_ID
    assert await cluster.commit(producer, 5, version=6) == ErrorCode.NONE
    assert (await cluster.end(producer, True)).error_code == ErrorCode.NONE
    await settle()
    assert await cluster.fetched(require_stable=True) == (5, ErrorCode.NONE)


async def test_offsets_are_refused_that_no_transaction_has() -> None:
    cluster = await Cluster().start()
    producer = await cluster.init()
    assert await cluster.commit(producer, 5) == ErrorCode.INVALID_TXN_STATE
    assert await cluster.commit(producer, 5, version=4) == ErrorCode.TRANSACTION_ABORTABLE
    assert await cluster.commit(producer, 5, version=5) == ErrorCode.NONE  # which adds the group's partition
    assert await cluster.state() == "Ongoing"
    later = await cluster.init()
    assert await cluster.commit(producer, 6) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert (later.error_code, later.producer_epoch) == (0, 2)
    assert await cluster.fetched(require_stable=True) == (-1, ErrorCode.NONE)


async def test_a_marker_goes_to_the_leader_again_until_it_is_taken() -> None:
    cluster = await Cluster().start()
    producer = await cluster.init()
    assert await cluster.add(producer) == ErrorCode.NONE
    cluster.codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS]
    assert (await cluster.end(producer, True)).error_code == ErrorCode.NONE
    assert await cluster.state() == "PrepareCommit"
    for _ in range(20):
        cluster.stage.clock.advance(10)
        await settle()
    assert await cluster.state() == "CompleteCommit"
    assert len(cluster.markers) == 3
    assert {(one.producer_epoch, one.transaction_result, one.coordinator_epoch) for one in cluster.markers} == {
        (0, True, 3)
    }


async def test_the_next_transaction_waits_for_the_markers_of_the_one_before() -> None:
    cluster = await Cluster().start()
    producer = await cluster.init()
    await cluster.add(producer)
    cluster.codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    await cluster.end(producer, True)
    assert await cluster.add(producer) == ErrorCode.NONE  # after the second attempt, which took 20 ms
    cluster.codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 100
    await cluster.end(producer, True)
    assert await cluster.add(producer) == ErrorCode.CONCURRENT_TRANSACTIONS


async def test_a_partition_that_is_deleted_holds_up_no_transaction() -> None:
    cluster = await Cluster().start()
    producer = await cluster.init()
    await cluster.add(producer)
    cluster.codes = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 100
    await cluster.end(producer, True)
    gone = whole()
    await cluster.stage.become(replace(gone, topics={name: t for name, t in gone.topics.items() if name != "t"}))
    for _ in range(20):
        cluster.stage.clock.advance(10)
        await settle()
    assert await cluster.state() == "CompleteCommit"


async def test_a_partition_that_the_image_does_not_have_yet_gets_its_marker() -> None:
    """Its leader has it added (KIP-890), which may know of a new topic before the coordinator does."""
    cluster = await Cluster().start()
    producer = await cluster.init()
    old = whole()
    await cluster.stage.become(replace(old, topics={name: t for name, t in old.topics.items() if name != "t"}))
    cluster.stage.committed = old
    row = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
    asked = row(
        transactional_id="id",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        verify_only=False,
        topics=[row.AddPartitionsToTxnTopic(name="t", partitions=[0])],
    )
    request = m.AddPartitionsToTxnRequest(transactions=[asked])
    answer = await cluster.stage.answered(cluster.stage.ask(request, 5))
    topic = answer.results_by_transaction[0].topic_results[0]
    assert topic.results_by_partition[0].partition_error_code == ErrorCode.NONE
    assert (await cluster.end(producer, True, version=5)).error_code == ErrorCode.NONE
    for _ in range(20):
        cluster.stage.clock.advance(10)
        await settle()
    assert await cluster.state() == "CompleteCommit"
    assert [(one.producer_epoch, one.transaction_result) for one in cluster.markers] == [(1, True)]


async def test_an_end_that_the_shard_has_no_room_for_is_told_again() -> None:
    """Or every later transaction of the id would wait for it."""
    clock, refusals, completed = ManualClock(), [ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)], []

    async def complete(owned: OwnedPartition, transaction: TransactionState) -> None:
        if refusals:
            raise refusals.pop()
        completed.append(transaction)

    async def catch_up() -> bool:
        return True

    state = with_partitions(created("id", 1000, 1000, 0), [("deleted", 0)], 0, 2)
    state = prepared(state, Status.PREPARE_COMMIT, 0, version=2)
    sender = MarkerSender(MemoryPeers(whole, "boot"), whole, clock, complete, catch_up)
    sender.act(OwnedPartition(TRANSACTIONS_ID, 0, 3, 0, 0, Address("127.0.0.1", 2)), SendMarkers(state))
    for _ in range(20):
        await settle()
        clock.advance(10)
    assert (completed, len(sender)) == ([state], 0)


async def test_who_waits_for_markers_has_a_timeout_of_its_own() -> None:
    """One caller's patience is not another's: the markers are still on their way when the first one gives up."""
    clock = ManualClock()

    async def complete(owned: OwnedPartition, transaction: TransactionState) -> None:
        raise AssertionError("nobody takes its markers")

    async def catch_up() -> bool:
        return True

    state = with_partitions(created("id", 1000, 1000, 0), [("t", 0)], 0, 2)
    state = prepared(state, Status.PREPARE_COMMIT, 0, version=2)
    sender = MarkerSender(MemoryPeers(whole, "boot"), whole, clock, complete, catch_up)
    sender.act(OwnedPartition(TRANSACTIONS_ID, 0, 3, 0, 0, Address("127.0.0.1", 2)), SendMarkers(state))
    first = asyncio.ensure_future(sender.ended("id", 100))
    await settle()
    clock.advance(60)
    await settle()
    second = asyncio.ensure_future(sender.ended("id", 100))
    await settle()
    clock.advance(40)
    await settle()
    third = asyncio.ensure_future(sender.ended("id", 100))
    await settle()
    assert (first.done(), second.done(), third.done()) == (True, False, False)
    sender.on_image(lambda owned: False)
    await settle()
    assert second.done() and third.done()
    await sender.close()


async def test_markers_go_to_the_new_leader_while_the_old_one_is_silent() -> None:
    """A host that is cut off answers nothing for as long as a request may take: others lead its partitions by then."""
    completed: list[TransactionState] = []
    before = whole()
    second = replace(before.brokers[0], broker_id=1, endpoints=(Endpoint("INTERNAL", "127.0.0.1", 7),))
    topic = before.topics["t"]
    led_by_second = replace(topic, partitions=(replace(topic.partitions[0], leader=1),))
    after = replace(before, brokers={**before.brokers, 1: second}, topics={**before.topics, "t": led_by_second})
    current = [before]

    async def complete(owned: OwnedPartition, transaction: TransactionState) -> None:
        completed.append(transaction)

    async def catch_up() -> bool:
        return True

    async def answer(address: Address, request: Any) -> Any:
        if address.port == 1:
            await asyncio.Event().wait()
        row = m.WriteTxnMarkersResponse.WritableTxnMarkerResult
        marker_topic = row.WritableTxnMarkerTopicResult
        partition = marker_topic.WritableTxnMarkerPartitionResult(partition_index=0, error_code=0)
        done = [marker_topic(name="t", partitions=[partition])]
        return m.WriteTxnMarkersResponse(markers=[row(producer_id=1000, topics=done)])

    state = with_partitions(created("id", 1000, 1000, 0), [("t", 0)], 0, 2)
    state = prepared(state, Status.PREPARE_COMMIT, 0, version=2)
    peers = MemoryPeers(lambda: current[0], "boot")
    peers.answer = answer
    sender = MarkerSender(peers, lambda: current[0], ManualClock(), complete, catch_up)
    sender.act(OwnedPartition(TRANSACTIONS_ID, 0, 3, 0, 0, Address("127.0.0.1", 2)), SendMarkers(state))
    await settle()
    sender.on_image(lambda owned: True)
    await settle()
    assert ([address.port for address, _ in peers.asked], completed) == ([1], [])
    current[0] = after
    sender.on_image(lambda owned: True)
    await settle()
    assert ([address.port for address, _ in peers.asked], completed) == ([1, 7], [state])
    await sender.close()


async def test_a_new_owner_of_the_shard_sends_the_markers_and_the_old_one_does_not() -> None:
    cluster = await Cluster().start()
    producer = await cluster.init()
    await cluster.add(producer)
    cluster.codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 3
    await cluster.end(producer, True)
    await cluster.stage.become(whole(transaction_epoch=4))
    for _ in range(50):
        cluster.stage.clock.advance(10)
        await settle()
    assert [one.coordinator_epoch for one in cluster.markers] == [3, 4, 4, 4]
    assert await cluster.state() == "CompleteCommit"


async def test_markers_of_older_coordinators_and_of_fenced_producers_are_refused() -> None:
    cluster = await Cluster().start()

    async def mark(producer_epoch: int, coordinator_epoch: int) -> int:
        row = m.WriteTxnMarkersRequest.WritableTxnMarker
        marker = row(
            producer_id=77,
            producer_epoch=producer_epoch,
            transaction_result=True,
            topics=[row.WritableTxnMarkerTopic(name=GROUP_METADATA_TOPIC, partition_indexes=[0])],
            coordinator_epoch=coordinator_epoch,
        )
        request = m.WriteTxnMarkersRequest(markers=[marker])
        answer = await cluster.stage.answered(cluster.stage.ask(request, 1))
        code: int = answer.markers[0].topics[0].partitions[0].error_code
        return code

    assert await mark(3, 5) == ErrorCode.NONE
    assert await mark(2, 5) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await mark(3, 4) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    await cluster.stage.become(whole(offsets_epoch=2))
    assert await mark(3, 4) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert await mark(3, 5) == ErrorCode.NONE


async def test_a_late_marker_of_the_transaction_before_ends_no_later_one() -> None:
    """KIP-1228: in transaction version 2 the marker of one transaction has the epoch that the next one writes with."""
    cluster = await Cluster().start()
    producer = await cluster.init()
    assert await cluster.commit(producer, 5, version=5) == ErrorCode.NONE
    later = await cluster.end(producer, True, version=5)
    await settle()
    assert await cluster.commit(later, 9, version=5) == ErrorCode.NONE
    row = m.WriteTxnMarkersRequest.WritableTxnMarker
    late = row(
        producer_id=later.producer_id,
        producer_epoch=later.producer_epoch,
        transaction_result=True,
        topics=[row.WritableTxnMarkerTopic(name=GROUP_METADATA_TOPIC, partition_indexes=[0])],
        coordinator_epoch=3,
        transaction_version=2,
    )
    answer = await cluster.stage.answered(cluster.stage.ask(m.WriteTxnMarkersRequest(markers=[late]), 2))
    assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await cluster.fetched() == (5, ErrorCode.NONE)
    assert (await cluster.end(later, False, version=5)).error_code == ErrorCode.NONE
    await settle()
    assert await cluster.fetched(require_stable=True) == (5, ErrorCode.NONE)


async def test_offsets_are_the_first_act_after_a_commit_whose_marker_is_under_way() -> None:
    """The marker comes while the transaction's coordinator is asked; it is of the transaction before."""
    cluster = await Cluster().start()
    producer = await cluster.init()
    assert await cluster.commit(producer, 5, version=5) == ErrorCode.NONE
    cluster.own_markers.clear()
    later = await cluster.end(producer, True, version=5)
    committing = asyncio.ensure_future(cluster.commit(later, 9, version=5))
    await settle()
    cluster.own_markers.set()
    assert await committing == ErrorCode.NONE
    assert await cluster.fetched() == (5, ErrorCode.NONE)
    assert (await cluster.end(later, True, version=5)).error_code == ErrorCode.NONE
    await settle()
    assert await cluster.fetched(require_stable=True) == (9, ErrorCode.NONE)


async def test_requests_without_an_id_or_with_half_a_producer_are_refused() -> None:
    cluster = await Cluster().start()
    assert (await cluster.init(transactional_id="")) is ErrorCode.INVALID_REQUEST
    assert (await cluster.init(producer_id=5)) is ErrorCode.INVALID_REQUEST
    assert (await cluster.init(transaction_timeout_ms=900_001)).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    producer = await cluster.init()
    assert await cluster.add(producer, topic="none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await asyncio.wait_for(cluster.state(), HUNG_S) == "Empty"
