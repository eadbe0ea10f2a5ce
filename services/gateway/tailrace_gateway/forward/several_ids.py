"""Requests that may name groups or transactional ids of several owners: split, and their answers joined as asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import NamedTuple

from tailrace.errors import ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tailrace.metadata.image import MetadataImage
from tailrace.net.address import Address
from tailrace.net.members.shards import shard_of
from tailrace.wire.apis import ApiKey
from tailrace.wire.refuse import refuse
from tailrace_gateway.clients.client import ClientLink
from tailrace_gateway.forward.controller import request_of
from tailrace_gateway.forward.owners import ask, owner
from tailrace_gateway.gateway import Gateway
from tailrace_gateway.relay.requests import Frame


class Split(NamedTuple):
    """One API, by the names of fields."""

    topic: str
    from_version: int  # before it a request names one id, as its first field
    asked: str  # the list in the request
    id: str  # in a row of that list; "": the row is the id
    results: str  # the list in the answer

    def rows(self, request: object) -> Sequence[object]:
        """What a request asks for."""
        found: Sequence[object] = getattr(request, self.asked)
        return found

    def id_of(self, row: object) -> str:
        """Whose owner is to be asked."""
        return str(getattr(row, self.id) if self.id else row)

    def shards(self, request: object, image: MetadataImage) -> list[int]:
        """The shard of each row of a request."""
        return [shard_of(image, self.topic, self.id_of(row)) for row in self.rows(request)]

    def part(self, request: object, rows: list[object]) -> object:
        """The request, for these rows of it alone."""
        part = copy(request)
        setattr(part, self.asked, rows)
        return part

    def results_of(self, part: object, answer: object) -> Sequence[object]:
        """A result for each row of a part."""
        found: Sequence[object] = getattr(answer, self.results)
        return found


_SPLITS: dict[int, Split] = {
    ApiKey.DESCRIBE_GROUPS: Split(GROUP_METADATA_TOPIC, 0, "groups", "", "groups"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Split(GROUP_METADATA_TOPIC, 0, "group_ids", "", "groups"),
    ApiKey.DELETE_GROUPS: Split(GROUP_METADATA_TOPIC, 0, "groups_names", "", "results"),
    ApiKey.OFFSET_FETCH: Split(GROUP_METADATA_TOPIC, 8, "groups", "group_id", "groups"),
    ApiKey.DESCRIBE_TRANSACTIONS: Split(TRANSACTION_STATE_TOPIC, 0, "transactional_ids", "", "transaction_states"),
}


class Only(NamedTuple):
    """All ids have one owner: the request can go there as it is, by the first of them."""

    request_id: str


def split_of(frame: Frame) -> Split | None:
    """How a request is split; None for one that names a single id."""
    split = _SPLITS.get(frame.key)
    return None if split is None or frame.version < split.from_version else split


async def answer(gateway: Gateway, connection: ClientLink, frame: Frame, split: Split) -> bytes | memoryview | Only:
    """The joined answer frame; Only where there is nothing to split."""
    async with request_of(gateway, frame) as request:
        rows = split.rows(request)
        by_owner = await _by_owner(gateway, split, request)
        if len(by_owner) != 1 or None in by_owner:
            return await _ask_all(gateway, connection, frame, split, request, by_owner)
        return Only(split.id_of(rows[0]))


async def _by_owner(gateway: Gateway, split: Split, request: object) -> dict[Address | None, list[int]]:
    """The places of what is asked for in the request, by its owner."""
    shards = await gateway.large.over_rows(request, partial(split.shards, request, gateway.image))
    owners = {shard: await owner(gateway, split.topic, shard) for shard in set(shards)}
    by_owner: dict[Address | None, list[int]] = {address: [] for address in owners.values()}
    for place, shard in enumerate(shards):
        by_owner[owners[shard]].append(place)
    return by_owner


async def _ask_all(
    gateway: Gateway,
    connection: ClientLink,
    frame: Frame,
    split: Split,
    request: object,
    by_owner: dict[Address | None, list[int]],
) -> bytes | memoryview:
    asked = split.rows(request)
    parts = [(address, split.part(request, [asked[place] for place in places])) for address, places in by_owner.items()]
    asks = [ask(gateway, connection, frame, address, part) for address, part in parts]
    joined: list[object] = [None] * len(asked)
    for (_, part), places, answer in zip(parts, by_owner.values(), await asyncio.gather(*asks), strict=True):
        results = await gateway.large.over_rows(part, partial(split.results_of, part, answer))
        for place, result in zip(places, results, strict=False):
            joined[place] = result
    response: object = refuse(split.part(request, []), frame.key, frame.version, ErrorCode.NONE)
    setattr(response, split.results, [result for result in joined if result is not None])
    return await gateway.large.encode(response, frame.version, frame.correlation_id)
