"""ListGroups and ListTransactions: answered for each node, from the shards whose partitions the node leads.

Clients ask every node and add the answers up, so each group and transaction is in the answer of one node alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple

from tailrace.errors import ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tailrace.metadata.image import MetadataImage
from tailrace.net.members.shards import coordinators, owner_address, shard_of
from tailrace.wire import messages as m
from tailrace.wire.apis import ApiKey
from tailrace_gateway.clients.client import ClientLink
from tailrace_gateway.forward.controller import request_of
from tailrace_gateway.forward.owners import AWAY, ask
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.relay.requests import Frame


class ListApi(NamedTuple):
    """One API: the topic whose shards are listed, an empty answer, and its rows."""

    topic: str
    empty: Callable[[], Any]
    rows: Callable[[Any], list[Any]]
    id_of: Callable[[Any], str]
    incomplete: Callable[[int], ErrorCode | int]  # what clients are told where a shard answered with this error

    def rows_of_shards(self, answer: Any, image: MetadataImage, shards: Collection[int]) -> list[Any]:
        """The rows of an answer whose ids belong to these shards."""
        return [row for row in self.rows(answer) if shard_of(image, self.topic, self.id_of(row)) in shards]


def _groups_incomplete(code: int) -> int:
    return code if code == ErrorCode.MESSAGE_TOO_LARGE else ErrorCode.COORDINATOR_NOT_AVAILABLE


def _transactions_incomplete(code: int) -> int:
    """Java asks again for this error alone. What is wrong with the request is passed on."""
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if code == AWAY else code


LISTINGS: dict[int, ListApi] = {
    ApiKey.LIST_GROUPS: ListApi(
        GROUP_METADATA_TOPIC,
        lambda: m.ListGroupsResponse(error_code=0, groups=[]),
        lambda a: a.groups,
        lambda group: group.group_id,
        _groups_incomplete,
    ),
    ApiKey.LIST_TRANSACTIONS: ListApi(
        TRANSACTION_STATE_TOPIC,
        lambda: m.ListTransactionsResponse(error_code=0, unknown_state_filters=[], transaction_states=[]),
        lambda a: a.transaction_states,
        lambda transaction: transaction.transactional_id,
        _transactions_incomplete,
    ),
}


async def answer(gateway: Gateway, connection: ClientLink, frame: Frame, listing: ListApi) -> bytes | memoryview:
    """What the owners of the node's shards list of these shards; an error where one of them does not answer."""
    image, topic_name = gateway.image, listing.topic
    topic = image.topic(topic_name)
    partitions = topic.partitions if topic is not None else ()
    led = {number for number, partition in enumerate(partitions) if partition.leader == connection.node_id}
    owners = {owner_address(image, topic_name, shard, gateway.boot_id) for shard in led}
    if not owners and topic_name == TRANSACTION_STATE_TOPIC:  # any of them knows what is wrong with the filters
        owners.update(list(coordinators(image, gateway.boot_id))[:1])
    response = listing.empty()
    async with request_of(gateway, frame) as request:
        for address in owners:
            part = await ask(gateway, connection, frame, address, request)
            response.error_code = response.error_code or part.error_code
            if topic_name == TRANSACTION_STATE_TOPIC:
                response.unknown_state_filters = part.unknown_state_filters
            mine = partial(listing.rows_of_shards, part, image, led)
            listing.rows(response).extend(await gateway.large.over_rows(part, mine))
    if response.error_code:
        # KIP-222: one shard that cannot answer makes the list incomplete, and says so.
        code = listing.incomplete(response.error_code)
        response = listing.empty()
        response.error_code = code
    return await gateway.large.encode(response, frame.version, frame.correlation_id)
