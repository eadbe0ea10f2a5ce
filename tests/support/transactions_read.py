"""A partition as a reader of either isolation level gets it, from raw Fetch answers."""

from __future__ import annotations

import time

from support.batches import batch
from support.raw import build
from support.stage import Topic
from support.targets import Target
from tailrace.log.segment.transactions import marker_type
from tailrace.records.batch import read_header, split
from tailrace.records.markers import ABORT
from tailrace.records.record import iterate


def values(target: Target, topic: Topic, partition: int = 0, *, committed: bool) -> list[str]:
    """The values of all that one Fetch from offset 0 shows, without what was aborted, as a client leaves it out."""
    rows = [{"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    request = build(
        1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=int(committed),
        session_epoch=-1,
        topics=[{"topic": topic.name, "partitions": rows}],
    )
    found = target.ask(request, 11, topic.leaders[partition]).responses[0].partitions[0]
    assert found.error_code == 0, found
    aborted = sorted((one.first_offset, one.producer_id) for one in found.aborted_transactions or ())
    leaving: set[int] = set()
    seen = []
    for one in split(bytes(found.records or b"")):
        header = read_header(one)
        while aborted and aborted[0][0] <= header.last_offset:
            leaving.add(aborted.pop(0)[1])
        if header.is_control:
            if marker_type(one, header) == ABORT:
                leaving.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in leaving):
            seen += [(record.value or b"").decode() for record in iterate(one)]
    return seen


def write_plain(topic: Topic, partition: int = 0) -> None:
    """Appends "plain" without a transaction: a reader at read_committed sees it when no older one is open."""
    assert topic.produce(batch(b"plain", base_timestamp=int(time.time() * 1000)), partition=partition).error_code == 0
