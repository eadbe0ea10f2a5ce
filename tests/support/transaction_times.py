"""How long each transaction was open in a partition, from the partition's own batches and markers.

The topic has message.timestamp.type=LogAppendTime: a batch and a marker have the time at which the leader took them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from support.raw import Raw, build
from tailrace.log.segment.transactions import marker_type
from tailrace.records.batch import BatchHeader, read_header, split

FETCH = 1
_PIECE_BYTES = 1 << 20


class Opened(NamedTuple):
    """One transaction in one partition; open_ms is None while it has no marker."""

    producer_id: int
    first_offset: int
    open_ms: int | None


def opened(batches: Iterator[tuple[BatchHeader, int | None]]) -> list[Opened]:
    """The transactions of these batches, each with the type of its marker if it is one."""
    begun: dict[int, BatchHeader] = {}
    found = []
    for header, marker in batches:
        if marker is None:
            if header.is_transactional:
                begun.setdefault(header.producer_id, header)
        elif (first := begun.pop(header.producer_id, None)) is not None:
            took_ms = header.max_timestamp - first.max_timestamp
            found.append(Opened(header.producer_id, first.base_offset, took_ms))
    return found + [Opened(producer_id, first.base_offset, None) for producer_id, first in begun.items()]


def batches_at(leader: Raw, topic: str, partition: int) -> Iterator[tuple[BatchHeader, int | None]]:
    """All batches of a partition, whatever became of their transactions."""
    offset = 0
    while True:
        row = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": _PIECE_BYTES}
        request = build(
            FETCH,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=_PIECE_BYTES,
            isolation_level=0,
            session_epoch=-1,
            topics=[{"topic": topic, "partitions": [row]}],
        )
        found = leader.ask(request, 11).responses[0].partitions[0]
        assert found.error_code == 0, found
        if not found.records:
            return
        for batch in split(bytes(found.records)):
            header = read_header(batch)
            offset = header.next_offset
            yield header, marker_type(batch, header)
