"""The transactions that coordinators have open: what a broker asks of all of them (ListTransactions, then Describe)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from tailrace.errors import ErrorCode
from tailrace.net.address import Address
from tailrace.net.client import Disconnected
from tailrace.wire import messages as m
from tailrace_broker.transactions.open_transactions import Place

ONGOING: Final = "Ongoing"
_OPEN: Final = frozenset({ONGOING, "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
_KNOWN: Final = (ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)  # not found: gone since it was listed


class AllCoordinators(Protocol):
    """The owners of the shards of `__transaction_state`. Raises Disconnected, TimeoutError or Malformed."""

    def owners(self) -> Sequence[Address]:
        """All of them; Disconnected where a shard has none."""
        ...

    async def forward(self, address: Address, message: m.ApiMessage) -> Any:
        """One request to one of them."""
        ...


async def coordinated(coordinators: AllCoordinators, producer_ids: list[int]) -> dict[Place, str]:
    """The state of each of these producers' open transactions, by partition.

    Raises Disconnected, TimeoutError or Malformed where a coordinator cannot say.
    """
    found = {}
    for address in coordinators.owners():
        listed = await _ask(
            coordinators, address, m.ListTransactionsRequest(state_filters=[], producer_id_filters=producer_ids)
        )
        names = [one.transactional_id for one in listed.transaction_states if one.transaction_state in _OPEN]
        if not names:
            continue
        described = await _ask(coordinators, address, m.DescribeTransactionsRequest(transactional_ids=names))
        for one in described.transaction_states:
            if one.error_code not in _KNOWN:
                raise Disconnected(f"{address} cannot describe {one.transactional_id}: error {one.error_code}")
            if one.transaction_state in _OPEN:
                places = (
                    Place(topic.topic, index, one.producer_id) for topic in one.topics for index in topic.partitions
                )
                found.update(dict.fromkeys(places, one.transaction_state))
    return found


async def _ask(coordinators: AllCoordinators, address: Address, message: m.ApiMessage) -> Any:
    answer = await coordinators.forward(address, message)
    if getattr(answer, "error_code", 0):
        raise Disconnected(f"{address} does not know yet")
    return answer
