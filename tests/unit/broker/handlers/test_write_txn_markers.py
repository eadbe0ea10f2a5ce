"""WriteTxnMarkers (KIP-98, KIP-1228): where markers go, what refuses them, and what they end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.broker import SECRET
from support.stub_coordinator import data, marker, produce, with_coordinator, write_markers
from tailrace.errors import ErrorCode
from tailrace.log.segment.transactions import read_marker
from tailrace.net.client import Client
from tailrace.records.batch import read_header, split
from tailrace.records.markers import ABORT, COMMIT
from tailrace.wire.messages import WriteTxnMarkersRequest

E = ErrorCode


def markers_of(broker: Any, index: int = 0) -> list[tuple[int, int, int, int]]:
    """(producer id, epoch, outcome, coordinator epoch) of the markers in a partition of t."""
    log, offset = broker.broker.topics.led("t", index).log, 0
    found = []
    while offset < log.log_end_offset:  # they are of another time than the records, and so in another segment
        for batch in split(log.read(offset, 1 << 20).read()):
            header = read_header(batch)
            offset = header.next_offset
            outcome = read_marker(batch, header)
            if outcome is not None:
                found.append((header.producer_id, header.producer_epoch, outcome.kind, outcome.coordinator_epoch))
    return found


@pytest.mark.parametrize("version", [1, 2])
async def test_a_marker_ends_the_transaction_in_each_partition(tmp_path: Path, version: int) -> None:
    async with with_coordinator(tmp_path) as (broker, _):
        await produce(broker, {0: data(), 1: data()})
        assert broker.broker.topics.led("t", 0).visible_end(committed=True) == 0
        codes = await write_markers(
            broker, marker(commit=False, partitions=(0, 1), coordinator_epoch=4), version=version
        )
        assert codes == [{("t", 0): 0, ("t", 1): 0}]
        for index in (0, 1):
            partition = broker.broker.topics.led("t", index)
            assert partition.visible_end(committed=True) == 2
            assert markers_of(broker, index) == [(7, 0, ABORT, 4)]
            assert partition.log.aborted_transactions(0, partition.log.read(0, 1 << 20)) == [(7, 0)]


async def test_markers_of_one_partition_are_written_together_and_refused_each_for_itself(tmp_path: Path) -> None:
    async with with_coordinator(tmp_path) as (broker, _):
        await write_markers(broker, marker(8, epoch=5, coordinator_epoch=3))
        codes = await write_markers(
            broker,
            marker(7, epoch=1, commit=True),
            marker(8, epoch=4, coordinator_epoch=3),
            marker(8, epoch=5, coordinator_epoch=2),
            marker(8, epoch=6, coordinator_epoch=3, commit=False),
        )
        assert [row["t", 0] for row in codes] == [0, E.INVALID_PRODUCER_EPOCH, E.TRANSACTION_COORDINATOR_FENCED, 0]
        assert markers_of(broker) == [(8, 5, COMMIT, 3), (7, 1, COMMIT, 0), (8, 6, ABORT, 3)]


async def test_what_is_not_here_or_not_led_here_is_refused(tmp_path: Path) -> None:
    async with with_coordinator(tmp_path) as (broker, _):
        codes = await write_markers(
            broker,
            marker(partitions=(0, 2, 9)),
            marker(name="nowhere"),
            marker(name="__transaction_state"),
        )
        unknown = E.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == [
            {("t", 0): 0, ("t", 2): unknown, ("t", 9): unknown},
            {("nowhere", 0): unknown},
            {("__transaction_state", 0): unknown},
        ]


@pytest.mark.parametrize(
    ("epoch", "first", "repeated"),
    [(0, E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_EPOCH), (1, E.NONE, E.NONE)],
)
async def test_in_transaction_version_2_a_marker_has_an_epoch_of_its_own(
    tmp_path: Path, epoch: int, first: E, repeated: E
) -> None:
    async with with_coordinator(tmp_path) as (broker, _):
        await produce(broker, data())
        for code in (first, repeated):
            codes = await write_markers(broker, marker(epoch=epoch, transaction_version=2))
            assert codes == [{("t", 0): code}]


async def test_a_late_marker_of_version_2_does_not_end_the_next_transaction(tmp_path: Path) -> None:
    async with with_coordinator(tmp_path) as (broker, _):
        await produce(broker, data())
        ended = marker(epoch=1, transaction_version=2)
        await write_markers(broker, ended)
        assert (await produce(broker, data(epoch=1))).error_code == 0
        assert await write_markers(broker, ended) == [{("t", 0): E.INVALID_PRODUCER_EPOCH}]
        assert broker.broker.topics.led("t", 0).visible_end(committed=True) == 2


async def test_markers_for_offsets_go_to_the_owner_of_the_shard(tmp_path: Path) -> None:
    async with with_coordinator(tmp_path) as (broker, stub):
        stub.codes["", "__consumer_offsets", 0] = [E.NONE, E.NOT_COORDINATOR, E.INVALID_PRODUCER_EPOCH]
        offsets = marker(name="__consumer_offsets", epoch=3, coordinator_epoch=2, transaction_version=2)
        for code in (E.NONE, E.NOT_LEADER_OR_FOLLOWER, E.INVALID_PRODUCER_EPOCH):
            codes = await write_markers(broker, offsets, marker())
            assert codes == [{("__consumer_offsets", 0): code}, {("t", 0): 0}]
        sent = stub.markers[0]
        assert (sent.producer_id, sent.producer_epoch, sent.coordinator_epoch) == (7, 3, 2)
        assert (sent.transaction_result, sent.transaction_version) == (True, 2)
        assert broker.broker.topics.led("__consumer_offsets", 0).log.log_end_offset == 0


async def test_markers_for_offsets_are_tried_again_while_their_owner_is_away(tmp_path: Path) -> None:
    async with with_coordinator(tmp_path) as (broker, _):
        broker.follower.move(services={})
        codes = await write_markers(broker, marker(name="__consumer_offsets"))
        assert codes == [{("__consumer_offsets", 0): E.NOT_LEADER_OR_FOLLOWER}]


HIGHEST = 2**31 - 1  # of an epoch; the controller gave 5


async def test_a_coordinator_epoch_that_the_controller_did_not_give_is_refused(tmp_path: Path) -> None:
    async with with_coordinator(tmp_path) as (broker, _):
        await produce(broker, data())
        for epoch in (6, HIGHEST):
            fenced = marker(coordinator_epoch=epoch)
            assert await write_markers(broker, fenced) == [{("t", 0): E.TRANSACTION_COORDINATOR_FENCED}]
        assert await write_markers(broker, marker(coordinator_epoch=5)) == [{("t", 0): 0}]
        assert markers_of(broker) == [(7, 0, COMMIT, 5)]


@pytest.mark.parametrize("state", ["", "Ongoing"])
async def test_an_admin_ends_an_open_transaction(tmp_path: Path, state: str) -> None:
    """kafka-transactions.sh abort: a marker with the producer's own epoch, from a client."""
    async with with_coordinator(tmp_path) as (broker, stub):
        await produce(broker, data())
        if state:
            stub.transactions[7] = (state, [("t", 0)])
        broker.service = broker.client
        reading = asyncio.create_task(broker.fetch(0, 0, isolation_level=1, max_wait_ms=60_000))
        assert await write_markers(broker, marker(commit=False), version=1) == [{("t", 0): 0}]
        row = await reading
        assert [(one.producer_id, one.first_offset) for one in row.aborted_transactions] == [(7, 0)]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ([marker(coordinator_epoch=4)], E.CLUSTER_AUTHORIZATION_FAILED),
        ([marker(commit=False, coordinator_epoch=HIGHEST)], E.TRANSACTION_COORDINATOR_FENCED),
        ([marker(commit=False, coordinator_epoch=5)], E.TRANSACTION_COORDINATOR_FENCED),
        ([marker(commit=False, coordinator_epoch=3)], E.TRANSACTION_COORDINATOR_FENCED),  # another has written since
        ([marker(commit=False, coordinator_epoch=4, epoch=1)], E.INVALID_PRODUCER_EPOCH),
        ([marker(8, commit=False, coordinator_epoch=4)], E.INVALID_TXN_STATE),  # none is open
        ([marker(9, commit=False)], E.INVALID_TXN_STATE),
        ([marker(commit=False, partitions=(0, 0))], E.INVALID_REQUEST),
        ([marker(commit=False), marker(commit=False)], E.INVALID_REQUEST),
        ([marker(commit=False, partitions=())], E.INVALID_REQUEST),
    ],
)
async def test_a_client_ends_nothing_else(tmp_path: Path, asked: list[Any], code: E) -> None:
    """An open transaction of producer 7, whose last one was ended by a coordinator of epoch 4."""
    async with with_coordinator(tmp_path) as (broker, _):
        await write_markers(broker, marker(coordinator_epoch=4), marker(8, coordinator_epoch=4))
        await produce(broker, data())
        commit, broker.service = broker.service, broker.client
        refused = await write_markers(broker, *asked)
        assert {one for row in refused for one in row.values()} <= {code}
        assert len(markers_of(broker)) == 2
        broker.service = commit
        assert await write_markers(broker, marker(coordinator_epoch=5)) == [{("t", 0): 0}], "the owner commits"
        assert (
            broker.broker.topics.led("t", 0).log.aborted_transactions(
                0, broker.broker.topics.led("t", 0).log.read(0, 1 << 20)
            )
            == []
        )


@pytest.mark.parametrize("state", ["PrepareCommit", "PrepareAbort", "PrepareEpochFence"])
async def test_a_client_does_not_end_what_its_coordinator_has_decided(tmp_path: Path, state: str) -> None:
    async with with_coordinator(tmp_path) as (broker, stub):
        await produce(broker, {0: data(), 1: data()})
        broker.service = broker.client
        stub.transactions[7] = (state, [("t", 0)])
        assert await write_markers(broker, marker(commit=False)) == [{("t", 0): E.INVALID_TXN_STATE}]
        elsewhere = marker(commit=False, partitions=(1,))  # it hangs there
        assert await write_markers(broker, elsewhere) == [{("t", 1): 0}]
        stub.whole = E.COORDINATOR_LOAD_IN_PROGRESS
        assert await write_markers(broker, marker(commit=False)) == [{("t", 0): E.COORDINATOR_NOT_AVAILABLE}]
        assert markers_of(broker) == []


async def test_a_gateway_ends_what_hangs_and_nothing_that_a_coordinator_has_open(tmp_path: Path) -> None:
    async with with_coordinator(tmp_path) as (broker, stub):
        await produce(broker, data())
        gateway = broker.service = Client(broker.address, "tailrace-rest", login=SECRET)
        try:
            stub.transactions[7] = ("Ongoing", [("t", 0)])
            assert await write_markers(broker, marker(commit=False), version=1) == [{("t", 0): E.INVALID_TXN_STATE}]
            assert await write_markers(broker, marker()) == [{("t", 0): E.CLUSTER_AUTHORIZATION_FAILED}]
            stub.whole = E.COORDINATOR_LOAD_IN_PROGRESS
            silent = await write_markers(broker, marker(commit=False), version=1)
            assert silent == [{("t", 0): E.COORDINATOR_NOT_AVAILABLE}]
            assert markers_of(broker) == []
            stub.whole, stub.transactions = 0, {}
            for code in (0, E.INVALID_TXN_STATE):
                assert await write_markers(broker, marker(commit=False), version=1) == [{("t", 0): code}]
            assert markers_of(broker) == [(7, 0, ABORT, 0)]
        finally:
            await gateway.close()


@pytest.mark.parametrize("code", [E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR, E.MESSAGE_TOO_LARGE])
async def test_a_client_ends_nothing_while_the_coordinator_cannot_say_what_it_has_decided(
    tmp_path: Path, code: E
) -> None:
    async with with_coordinator(tmp_path) as (broker, stub):
        await produce(broker, data())
        broker.service = broker.client
        stub.transactions[7] = ("PrepareCommit", [("t", 0)])
        stub.described_code = code
        assert await write_markers(broker, marker(commit=False)) == [{("t", 0): E.COORDINATOR_NOT_AVAILABLE}]
        assert markers_of(broker) == []


async def test_a_transaction_that_ends_while_its_coordinator_is_asked_is_not_aborted(tmp_path: Path) -> None:
    async with with_coordinator(tmp_path) as (broker, stub):
        await produce(broker, data())
        service, broker.service = broker.service, broker.client

        async def committed_and_begun_anew() -> None:
            stub.on_listed = lambda: None
            request = WriteTxnMarkersRequest(markers=[marker(coordinator_epoch=0)])
            await service.ask(request, timeout_ms=60_000, version=2)
            assert (await produce(other, data(sequence=1))).error_code == 0

        stub.on_listed = committed_and_begun_anew
        other = broker.again()
        try:
            assert await write_markers(broker, marker(commit=False)) == [{("t", 0): E.INVALID_TXN_STATE}]
        finally:
            await other.client.close()
        assert markers_of(broker) == [(7, 0, COMMIT, 0)]
