"""Two hundred clients read what is on the disk alone, each somewhere else: all get it, and the others go on."""

from __future__ import annotations

import os
import struct
from concurrent.futures import ThreadPoolExecutor

from support.abuse import PRODUCE, Body, Client, Seen, Watch, create_topics, data, fetch, rows, text
from support.batches import batch
from support.stage import leads
from support.waiting import until
from tailrace.testing import Cluster

CLIENTS = 200
REQUESTS = 64
VALUE_BYTES = 9_000
VALUES = 100  # of a request: some 900 KB
TOPIC = "cold"


def fill(cluster: Cluster) -> None:
    value = bytes(VALUE_BYTES)
    row = struct.pack(">i", 0) + data(batch(*[value] * VALUES))
    asked = Body(PRODUCE, 7, text(None) + struct.pack(">hi", 1, 30_000) + rows([text(TOPIC) + rows([row])]))
    with Client(cluster) as client:
        assert client.answer(create_topics([TOPIC]))
        until(lambda: leads(client, TOPIC), "the topic is led")
        for _ in range(REQUESTS):
            assert client.answer(asked)


def make_cold(cluster: Cluster) -> int:
    """Takes the topic's data out of the page cache; how many bytes it has."""
    size = 0
    for path in (cluster.data_dir / "broker-0" / f"{TOPIC}-0").glob("*.log"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            size += path.stat().st_size
    return size


def read(cluster: Cluster, number: int) -> int:
    """One client's requests from places of its own; how many bytes it was answered."""
    places = [(number * 37 + 97 * turn) % REQUESTS * VALUES for turn in range(3)]
    with Client(cluster) as client:
        wanted = (struct.pack(">iiqqi", 0, -1, place, -1, 1 << 20) for place in places)
        return sum(len(client.answer(fetch(rows([text(TOPIC) + rows([one])])))) for one in wanted)


def test_two_hundred_clients_read_cold_data(cluster: Cluster, watch: Watch, found: list[Seen]) -> None:
    fill(cluster)
    assert make_cold(cluster) > REQUESTS * VALUES * VALUE_BYTES
    with watch.over(f"{CLIENTS} clients on cold data") as seen, ThreadPoolExecutor(CLIENTS) as threads:
        answered = list(threads.map(lambda number: read(cluster, number), range(CLIENTS)))
    found.append(seen)
    assert min(answered) > 3 * VALUES * VALUE_BYTES
    assert (seen.died, seen.errors, seen.complaints) == ([], [], [])
    assert seen.peaks_mb["broker-0"] < 400
