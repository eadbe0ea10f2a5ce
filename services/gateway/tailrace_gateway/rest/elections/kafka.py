"""Elections of leaders: ElectLeaders v2 (KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tailrace.errors import ErrorCode
from tailrace.metadata.moves import Partition, portions
from tailrace.wire.messages import ElectLeadersRequest
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.errors import check

_TIMEOUT_MS = 10_000


class Elected(NamedTuple):
    """What became of one partition's election."""

    partition: Partition
    error_code: int
    error_message: str | None


async def elect(backend: AdminBackend, partitions: Iterable[Partition] | None, *, unclean: bool) -> list[Elected]:
    """Elects preferred leaders, or (unclean) any live one; None: of all partitions. Needless elections have no row."""
    if partitions is None:
        return await _elect(backend, None, unclean=unclean)
    topic, found = ElectLeadersRequest.TopicPartitions, list[Elected]()
    for portion in portions(dict.fromkeys(partitions)):
        rows = [topic(topic=name, partitions=[index for index, _ in parts]) for name, parts in portion]
        found += await _elect(backend, rows, unclean=unclean)
    return found


async def _elect(
    backend: AdminBackend, rows: list[ElectLeadersRequest.TopicPartitions] | None, *, unclean: bool
) -> list[Elected]:
    request = ElectLeadersRequest(election_type=int(unclean), topic_partitions=rows, timeout_ms=_TIMEOUT_MS)
    answer = await backend.ask_controller(request)
    check(answer.error_code)
    return [
        Elected((topic.topic, part.partition_id), part.error_code, part.error_message)
        for topic in answer.replica_election_results
        for part in topic.partition_result
        if part.error_code != ErrorCode.ELECTION_NOT_NEEDED
    ]
