"""Requests that may name groups or transactional ids of several owners: split, and their answers joined as asked."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tailrace.errors import ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tailrace.net.address import Address
from tailrace.net.members.shards import shard_of
from tailrace.net.pieces import in_pieces
from tailrace.state import hashing_rows
from tailrace.wire import messages as m
from tailrace.wire.apis import ApiKey
from tailrace.wire.refuse import refuse
from tailrace_gateway.forward.controller import request_of
from tailrace_gateway.forward.owners import ask, owner
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.relay.client import ClientLink
from tailrace_gateway.relay.requests import Frame

_Results = Callable[[Any, Any], Sequence[Any]]


class Split(NamedTuple):
    """One API: what it asks for, a request for some of that, and the results of an answer to such a request."""

    topic: str
    from_version: int  # before it a request names one id, as its first field
    asked: Callable[[Any], Sequence[Any]]
    id_of: Callable[[Any], str]
    part: Callable[[Any, list[Any]], Any]
    results: _Results  # (part of the request, its answer)
    name: str  # of the list of results


class Only(NamedTuple):
    """All ids have one owner: the request can go there as it is, by the first of them."""

    request_id: str


def split_of(frame: Frame) -> Split | None:
    """How a request is split; None for one that names a single id."""
    split = _SPLITS.get(frame.key)
    return None if split is None or frame.version < split.from_version else split


def _describe_part(request: Any, groups: list[Any]) -> Any:
    return m.DescribeGroupsRequest(groups=groups, include_authorized_operations=request.include_authorized_operations)


def _fetch_part(request: Any, groups: list[Any]) -> Any:
    return m.OffsetFetchRequest(groups=groups, require_stable=request.require_stable)


def _added(request: Any, answer: Any) -> Sequence[Any]:
    """The results of AddPartitionsToTxn v4+, one for each transaction also where all of them were refused at once."""
    if not answer.error_code:
        found: Sequence[Any] = answer.results_by_transaction
        return found
    result = m.AddPartitionsToTxnResponse.AddPartitionsToTxnResult
    topic = result.AddPartitionsToTxnTopicResult
    partition = topic.AddPartitionsToTxnPartitionResult
    return [
        result(
            transactional_id=transaction.transactional_id,
            topic_results=[
                topic(
                    name=asked.name,
                    results_by_partition=[
                        partition(partition_index=index, partition_error_code=answer.error_code)
                        for index in asked.partitions
                    ],
                )
                for asked in transaction.topics
            ],
        )
        for transaction in request.transactions
    ]


_SPLITS: dict[int, Split] = {
    ApiKey.DESCRIBE_GROUPS: Split(
        GROUP_METADATA_TOPIC, 0, lambda q: q.groups, str, _describe_part, lambda _, a: a.groups, "groups"
    ),
    ApiKey.DELETE_GROUPS: Split(
        GROUP_METADATA_TOPIC,
        0,
        lambda q: q.groups_names,
        str,
        lambda _, groups: m.DeleteGroupsRequest(groups_names=groups),
        lambda _, a: a.results,
        "results",
    ),
    ApiKey.OFFSET_FETCH: Split(
        GROUP_METADATA_TOPIC, 8, lambda q: q.groups, lambda g: g.group_id, _fetch_part, lambda _, a: a.groups, "groups"
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Split(
        TRANSACTION_STATE_TOPIC,
        4,
        lambda q: q.transactions,
        lambda t: t.transactional_id,
        lambda _, transactions: m.AddPartitionsToTxnRequest(transactions=transactions),
        _added,
        "results_by_transaction",
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: Split(
        TRANSACTION_STATE_TOPIC,
        0,
        lambda q: q.transactional_ids,
        str,
        lambda _, ids: m.DescribeTransactionsRequest(transactional_ids=ids),
        lambda _, a: a.transaction_states,
        "transaction_states",
    ),
}


async def answer(gateway: Gateway, connection: ClientLink, frame: Frame, split: Split) -> bytes | Only:
    """The joined answer frame; Only where there is nothing to split."""
    async with request_of(gateway, frame) as request:
        ids = split.asked(request)
        by_owner = await _by_owner(gateway, split, ids)
        if len(by_owner) != 1 or None in by_owner:
            return await _ask_all(gateway, connection, frame, split, request, by_owner)
        return Only(split.id_of(ids[0]))


async def _by_owner(gateway: Gateway, split: Split, asked: Sequence[Any]) -> dict[Address | None, Sequence[int]]:
    """The places of what is asked for in the request, by its owner."""
    shards = array("i")  # as numbers and not as objects, which take long to free
    id_of = split.id_of
    async for one in in_pieces(asked, weigh=lambda one: hashing_rows(id_of(one))):
        shards.append(shard_of(gateway.image, split.topic, id_of(one)))
    owners = {shard: await owner(gateway, split.topic, shard) for shard in set(shards)}
    by_owner: dict[Address | None, Any] = {address: array("i") for address in owners.values()}
    if len(by_owner) > 1:
        async for place, shard in in_pieces(enumerate(shards)):
            by_owner[owners[shard]].append(place)
        return by_owner
    return dict.fromkeys(by_owner, range(len(asked)))


async def _ask_all(
    gateway: Gateway,
    connection: ClientLink,
    frame: Frame,
    split: Split,
    request: Any,
    by_owner: dict[Address | None, Sequence[int]],
) -> bytes:
    asked = split.asked(request)
    parts = [
        (address, split.part(request, [asked[place] async for place in in_pieces(places)]))
        for address, places in by_owner.items()
    ]
    asks = [ask(gateway, connection, frame, address, part) for address, part in parts]
    joined: list[Any] = [None] * len(asked)
    answer: Any = None  # of a request without ids
    for (_, part), places, answer in zip(parts, by_owner.values(), await asyncio.gather(*asks), strict=True):
        async for place, result in in_pieces(zip(places, split.results(part, answer), strict=False)):
            joined[place] = result
        gateway.large.let_go(answer)
    response: Any = refuse(split.part(request, []), frame.key, frame.version, ErrorCode.NONE)
    setattr(response, split.name, [result async for result in in_pieces(joined) if result is not None])
    del joined, answer
    return await gateway.large.encode(response, frame.version, frame.correlation_id)
