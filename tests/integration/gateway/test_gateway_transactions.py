"""Requests about transactions: to the owner of the transactional id's shard, or of the group's, split and joined."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from support.gateway import Peer, World
from tailrace.errors import ErrorCode
from tailrace.metadata.image import ShardImage
from tailrace.state.partitioner import partition_for
from tailrace.wire import codec
from tailrace.wire import messages as m
from tailrace_gateway.gateway import GatewayLimits

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
Three = tuple[World, Peer, Peer, Peer]


def id_on(shard: int, shards: int = 4) -> str:
    return next(name for name in map(str, range(1000)) if partition_for(name, shards) == shard)


@pytest.fixture
async def owners(open_world: Callable[..., World]) -> Three:
    """Four shards of transactions: node 0 leads 0 and 1, coordinator 0 owns the even ones. Groups: coordinator 2."""
    world = open_world(limits=GatewayLimits(coordinator_wait_ms=100))
    for node in (0, 1):
        world.put_broker(node, await world.peer(f"broker-{node}"))
    even, odd, groups = [await world.peer(f"coordinator-{number}") for number in range(3)]
    world.put_topic(TRANSACTIONS, [0, 0, 1, 1])
    world.put_topic(OFFSETS, [0, 0, 1, 1])
    peers = {0: even, 1: odd, 2: groups}
    world.put_coordinators({0: 0, 1: 1, 2: 0, 3: 1}, peers, TRANSACTIONS)
    world.put_coordinators(dict.fromkeys(range(4), 2), peers, OFFSETS)
    return world, even, odd, groups


def answering(respond: Callable[[Any], Any]) -> Callable[..., Any]:
    """A peer that decodes each request and sends what the test makes of it."""

    async def script(header: Any, frame: bytes, writer: asyncio.StreamWriter) -> None:
        request = codec.decode_request(header.api_key, header.api_version, frame[header.body_offset :])
        writer.write(codec.encode_response(respond(request), header.api_version, header.correlation_id))

    return script


def init(transactional_id: str | None) -> Any:
    return m.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1)


BY_ID: list[tuple[Callable[[str], Any], int]] = [
    (init, 0),
    (init, 5),
    (
        lambda name: m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[],
        ),
        3,
    ),
    (lambda name: m.AddOffsetsToTxnRequest(transactional_id=name, producer_id=1, producer_epoch=0, group_id="g"), 4),
    (lambda name: m.EndTxnRequest(transactional_id=name, producer_id=1, producer_epoch=0, committed=True), 5),
]


@pytest.mark.parametrize(("request_for", "version"), BY_ID)
async def test_a_request_about_one_id_goes_to_the_owner_of_its_shard_as_it_was(
    owners: Three, request_for: Callable[[str], Any], version: int
) -> None:
    world, even, odd, groups = owners
    client = await world.client()
    data = codec.encode_request(request_for(id_on(1)), version, 7, "test")
    client.send(data)
    assert await client.answer() == (7, data[4:])
    assert (len(even.frames), len(odd.frames), len(groups.frames)) == (0, 1, 0)


async def test_a_transactional_id_needs_no_node(owners: Three) -> None:
    world, even, _, _ = owners
    await world.peers[0].stop()
    client = await world.client()
    for _ in range(2):
        data = codec.encode_request(init(id_on(2)), 5, 7, "test")
        client.send(data)
        assert await client.answer() == (7, data[4:])
    assert len(even.frames) == 2


async def test_a_producer_id_without_transactional_id_is_the_nodes_to_give(owners: Three) -> None:
    world, *coordinators = owners
    client = await world.client()
    data = codec.encode_request(init(None), 5, 7, "test")
    client.send(data)
    assert await client.answer() == (7, data[4:])
    assert len(world.peers[0].frames) == 1 and not any(peer.frames for peer in coordinators)


async def test_offsets_of_a_transaction_go_to_the_groups_coordinator(owners: Three) -> None:
    world, even, odd, groups = owners
    client = await world.client()
    request = m.TxnOffsetCommitRequest(
        transactional_id=id_on(0), group_id="g", producer_id=1, producer_epoch=0, topics=[]
    )
    for version in (0, 5):
        data = codec.encode_request(request, version, 7, "test")
        client.send(data)
        assert await client.answer() == (7, data[4:])
    assert (len(even.frames), len(odd.frames), len(groups.frames)) == (0, 0, 2)


async def test_markers_go_to_the_node(owners: Three) -> None:
    world, *coordinators = owners
    client = await world.client()
    data = codec.encode_request(m.WriteTxnMarkersRequest(markers=[]), 1, 7, "test")
    client.send(data)
    assert await client.answer() == (7, data[4:])
    assert len(world.peers[0].frames) == 1 and not any(peer.frames for peer in coordinators)


async def test_transactions_of_two_owners_are_described_in_the_order_asked(owners: Three) -> None:
    world, even, odd, _ = owners

    def described(by: str) -> Callable[..., Any]:
        one = m.DescribeTransactionsResponse.TransactionState
        return answering(
            lambda request: m.DescribeTransactionsResponse(
                transaction_states=[
                    one(transactional_id=name, transaction_state=by, topics=[]) for name in request.transactional_ids
                ]
            )
        )

    even.script, odd.script = described("even"), described("odd")
    client = await world.client()
    names = [id_on(3), id_on(0), id_on(1)]
    answer = await client.ask(m.DescribeTransactionsRequest(transactional_ids=names), 0)
    found = [(row.transactional_id, row.transaction_state) for row in answer.transaction_states]
    assert found == list(zip(names, ["odd", "even", "odd"], strict=True))
    await odd.stop()
    answer = await client.ask(m.DescribeTransactionsRequest(transactional_ids=names), 0)
    assert [row.error_code for row in answer.transaction_states] == [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NONE,
        ErrorCode.NOT_COORDINATOR,
    ]


@pytest.mark.parametrize("version", [4, 5])
async def test_partitions_of_many_transactions_are_of_brokers_to_add(owners: Three, version: int) -> None:
    """A broker asks the coordinator itself; Apache Kafka asks for CLUSTER_ACTION."""
    world, *coordinators = owners
    transaction = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
    topics = [transaction.AddPartitionsToTxnTopic(name="t", partitions=[0])]
    asked = transaction(transactional_id=id_on(0), producer_id=1, producer_epoch=0, topics=topics)
    client = await world.client()
    answer = await client.ask(m.AddPartitionsToTxnRequest(transactions=[asked]), version)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert not any(peer.frames for peer in coordinators)


def listing(shards: list[int]) -> Callable[..., Any]:
    one = m.ListTransactionsResponse.TransactionState
    rows = [one(transactional_id=id_on(shard), producer_id=shard, transaction_state="Empty") for shard in shards]
    return answering(
        lambda request: m.ListTransactionsResponse(
            error_code=0, unknown_state_filters=request.state_filters, transaction_states=rows
        )
    )


async def test_each_node_lists_the_transactions_of_the_partitions_it_leads(owners: Three) -> None:
    world, even, odd, _ = owners
    even.script, odd.script = listing([0, 2]), listing([1, 3])
    for node, expected in ((0, {id_on(0), id_on(1)}), (1, {id_on(2), id_on(3)})):
        client = await world.client(node)
        answer = await client.ask(m.ListTransactionsRequest(state_filters=["x"], producer_id_filters=[]), 2)
        assert {row.transactional_id for row in answer.transaction_states} == expected
        assert answer.unknown_state_filters == ["x"]


async def test_a_list_of_transactions_that_lacks_a_shard_is_asked_for_again(owners: Three) -> None:
    world, even, odd, _ = owners
    even.script = listing([0, 2])
    await odd.stop()
    client = await world.client()
    answer = await client.ask(m.ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0)
    assert (answer.error_code, answer.transaction_states) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])


async def test_filters_are_judged_where_no_transaction_is_listed(owners: Three) -> None:
    world, even, odd, groups = owners
    world.put_topic(TRANSACTIONS, [1])
    for peer in (even, odd, groups):
        peer.script = answering(
            lambda _: m.ListTransactionsResponse(
                error_code=ErrorCode.INVALID_REGULAR_EXPRESSION, unknown_state_filters=[], transaction_states=[]
            )
        )
    client = await world.client()
    answer = await client.ask(m.ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 2)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_an_end_whose_coordinator_dies_or_moves_is_sent_to_the_next_one(owners: Three) -> None:
    world, even, _, _ = owners
    even.script = even.silent
    request = m.EndTxnRequest(transactional_id=id_on(0), producer_id=1, producer_epoch=0, committed=True)

    async def moves() -> None:
        world.put(shards={**world.follower.image.shards, (TRANSACTIONS, 0): ShardImage(TRANSACTIONS, 0, 1, 2)})

    async def dies() -> None:
        even.hang_up()

    for happens in (dies, moves):
        client = await world.client()
        asking = asyncio.ensure_future(client.ask(request, 5))
        await even.received.get()
        await happens()
        assert (await asking).error_code == ErrorCode.NOT_COORDINATOR


async def test_a_group_shard_that_moves_does_not_end_a_question_about_a_transaction(owners: Three) -> None:
    world, even, _, _ = owners
    even.script = even.silent
    client = await world.client()
    request = m.EndTxnRequest(transactional_id=id_on(0), producer_id=1, producer_epoch=0, committed=True)
    asking = asyncio.ensure_future(client.ask(request, 5))
    header = await even.received.get()
    world.put(shards={**world.follower.image.shards, (OFFSETS, 0): ShardImage(OFFSETS, 0, 1, 2)})
    response = m.EndTxnResponse(error_code=0, producer_id=1, producer_epoch=1)
    even.writers[-1].write(codec.encode_response(response, 5, header.correlation_id))
    assert (await asking).producer_epoch == 1
