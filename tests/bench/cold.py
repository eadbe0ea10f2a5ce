"""`PYTHONPATH=tests python -m bench.cold`: what a consumer of cold data costs those beside it.

One broker on a disk (`--folder`), a topic of several gigabytes whose pages are dropped from the page cache, and a
client that produces a record every two milliseconds and waits for its acknowledgement and for its arrival at a
long-polling consumer. Its p99 alone, beside a reader of data in the cache, and beside a reader of cold data.
"""

from __future__ import annotations

import argparse
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from kafka.admin import KafkaAdminClient

from bench import machine, report
from bench.client import build as build_client
from bench.client import load
from bench.report import say
from support import batches
from support.raw import Raw, build
from tailrace.testing import Cluster

PRODUCE, FETCH = 0, 1
COLD, TAIL = "cold", "tail"
MIB = 1 << 20
BEAT_SECONDS = 0.002
PLACE = struct.Struct(">qi11xi")  # base offset, batch length, last offset delta
ROW = "| {0} | {1:,.0f} | {2:,.0f} | {3:,.0f} | {4:,.0f} | {5:,.0f} |"


@dataclass(frozen=True)
class Beats:
    """Latencies in microseconds, from a produce request's send to its acknowledgement and to the consumer."""

    acknowledged: list[float]
    arrived: list[float]


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


def connect(address: str) -> Raw:
    host, _, port = address.rpartition(":")
    return Raw(host, int(port), timeout_s=60)


def fetch(topic: str, offset: int, max_bytes: int, max_wait_ms: int) -> object:
    partition = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "log_start_offset": -1,
        "partition_max_bytes": max_bytes,
    }
    return build(
        FETCH,
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic": topic, "partitions": [partition]}],
        forgotten_topics_data=[],
        rack_id="",
    )


def beat(address: str, seconds: float) -> Beats:
    """One record at a time: produced, acknowledged, consumed."""
    record = batches.batch(b"x" * 1000)
    data = [{"name": TAIL, "partition_data": [{"index": 0, "records": record}]}]
    request = build(PRODUCE, transactional_id=None, acks=1, timeout_ms=10_000, topic_data=data)
    beats, never = Beats([], []), threading.Event()
    with connect(address) as producer, connect(address) as consumer:
        offset = int(producer.ask(request, 9).responses[0].partition_responses[0].base_offset) + 1
        until = time.perf_counter() + seconds
        while (began := time.perf_counter()) < until:
            poll = consumer.send(fetch(TAIL, offset, MIB, 10_000), 11)
            never.wait(max(0.0, BEAT_SECONDS - (time.perf_counter() - began)))
            sent = time.perf_counter()
            producer.ask(request, 9)
            beats.acknowledged.append((time.perf_counter() - sent) * 1e6)
            consumer.receive(FETCH, 11, poll)
            beats.arrived.append((time.perf_counter() - sent) * 1e6)
            offset += 1
    return beats


def read(address: str, first: int, last: int, seconds: float) -> None:
    """Reads the cold topic between two offsets, over and over for so long; prints MB/s."""
    offset, count, began = first, 0, time.perf_counter()
    with connect(address) as client:
        while time.perf_counter() < began + seconds:
            records = client.ask(fetch(COLD, offset, MIB, 0), 11).responses[0].partitions[0].records
            count += len(records)
            offset = next_offset(records)
            if offset >= last:
                offset = first
    print(count / 1e6 / (time.perf_counter() - began))


def next_offset(records: bytes) -> int:
    """Behind the last whole batch; 0 without any."""
    at, after = 0, 0
    while at + PLACE.size <= len(records):
        base, length, delta = PLACE.unpack_from(records, at)
        at += 12 + length
        if at <= len(records):
            after = base + delta + 1
    return after


def drop_caches(folder: Path) -> None:
    """Only the cold topic's pages leave the cache."""
    for file in folder.glob(f"**/{COLD}-0/*.log"):
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def beside(address: str, first: int, last: int, seconds: float) -> tuple[Beats, float]:
    """The beats beside a reader of these offsets, and how much it read in MB/s."""
    own = [sys.executable, "-m", "bench.cold", "--read", address, str(first), str(last), str(seconds)]
    with subprocess.Popen(own, stdout=subprocess.PIPE, text=True) as reader:
        beats = beat(address, seconds)
        said, _ = reader.communicate(timeout=120)
    return beats, float(said)


def measure(options: argparse.Namespace) -> str:
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="tailrace-cold-") as name:
        folder = Path(name)
        settings = {
            "gateway.advertise": "brokers",
            "log.segment.bytes": "268435456",
            "offsets.topic.num.partitions": "1",
        }
        with Cluster(data_dir=folder, settings=settings) as cluster:
            address = cluster.addresses("broker")["client"].partition(",")[0]
            admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
            admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1} for topic in (COLD, TAIL)})
            admin.close()
            say(f"writing {options.gigabytes} GB")
            count = int(options.gigabytes * 1e9) // (64 * 1024)
            fill = {"record-size": 1024, "batch-size": 64 * 1024, "connections": 1, "in-flight": 5, "pin": True}
            done = load(address, COLD, {**fill, "requests": count, "warm-up": 0, "seconds": 600}, timeout_s=600)
            say(f"{done['requests']} batches")
            return rows(address, folder, options.seconds)


def rows(address: str, folder: Path, seconds: float) -> str:
    """The table."""
    end = _end(address)
    lines = [
        "| beside | read MB/s | ack p50 µs | ack p99 µs | arrival p50 µs | arrival p99 µs |",
        "|---" + "|--:" * 5 + "|",
    ]
    alone = beat(address, seconds)
    lines.append(_row("nobody", alone, 0))
    hot_end = min(end, 64 * 1600)
    _, _ = beside(address, 0, hot_end, 1)
    lines.append(_row("a reader of cached data", *beside(address, 0, hot_end, seconds)))
    drop_caches(folder)
    lines.append(_row("a reader of cold data", *beside(address, 0, end, seconds)))
    return "\n".join(lines)


def _end(address: str) -> int:
    with connect(address) as client:
        return int(client.ask(fetch(COLD, 0, 1, 0), 11).responses[0].partitions[0].high_watermark)


def _row(name: str, beats: Beats, rate: float) -> str:
    both = (beats.acknowledged, beats.arrived)
    line = ROW.format(name, rate, *(f(values) for values in both for f in (statistics.median, p99)))
    say(line)
    return line


def main(arguments: list[str]) -> None:
    """Measures and writes the report's section."""
    if arguments[:1] == ["--read"]:
        read(arguments[1], int(arguments[2]), int(arguments[3]), float(arguments[4]))
        return
    parser = argparse.ArgumentParser(prog="python -m bench.cold", description="Never fails.")
    parser.add_argument("--gigabytes", type=float, default=8.0, help="size of the cold topic")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each of the three measurements")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="a folder on a disk")
    parser.add_argument("--output", type=Path, default=report.DOCUMENT, help="the report to rewrite")
    options = parser.parse_args(arguments)
    build_client()
    table = measure(options)
    command = " ".join(["PYTHONPATH=tests python -m bench.cold", *arguments])
    report.write_section("cold", "\n".join([*machine.describe(), f"Command: `{command}`.", "", table]), options.output)


if __name__ == "__main__":
    main(sys.argv[1:])
