"""`PYTHONPATH=tests python -m bench.cold`: what a consumer of cold data costs those beside it.

A broker on a disk (`--folder`), a topic of several gigabytes whose pages are dropped from the page cache, and a
client that produces a record every two milliseconds and waits for its acknowledgement and for its arrival at a
long-polling consumer. Its p99 alone, beside a reader of data in the cache at a given rate and one that takes all it
gets, and beside two such readers of cold data; by turns, the medians count. The same for Apache Kafka, in turns with
Tailrace, as a measure of what the machine allows.

The reader stands for a consumer on another machine, so it takes as little of this one as it can: it decodes nothing but
offsets, and gives way to all others (nice 19). What it has read leaves the page cache behind it, as on a machine that
has been reading for longer than its memory lasts: new pages come where the last ones were. Gigabytes of memory that
nobody used lately are had from the host of a virtual machine, which holds it up for that.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kafka.admin import KafkaAdminClient

from bench import machine, report, servers, topics
from bench.client import build as build_client
from bench.client import load
from bench.report import say
from support import batches, kafka_peer
from support.raw import Raw, build
from tailrace.testing import Cluster

PRODUCE, FETCH = 0, 1
COLD, TAIL = "cold", "tail"
MIB = 1 << 20
BEAT_SECONDS = 0.002
PLACE = struct.Struct(">qi11xi")  # base offset, batch length, last offset delta
ROW = "| {0} | {1:,.0f} | {2:,.0f} | {3:,.0f} | {4:.2f} | {5:,.0f} | {6:,.0f} | {7:.2f} |"
ANSWER_HEAD = 70  # bytes before the records in an answer for one partition of COLD, version 11
PIECE_BYTES = 65_536
NICEST = 19
SETTLE_SECONDS = 4  # the host takes back what was dropped
DROPPED_RECORDS = 65_536  # of a kibibyte each: so many at once leave the page cache
WARM_UP_SECONDS = 10  # the other one compiles what it runs often


@dataclass(frozen=True)
class Beats:
    """Latencies in microseconds, from a produce request's send to its acknowledgement and to the consumer."""

    acknowledged: list[float]
    arrived: list[float]


class Reader(NamedTuple):
    """Who reads the cold topic from its beginning up to an offset, at so many MB/s (0: all it gets)."""

    end: int
    rate: float
    cold: bool


class Peer(NamedTuple):
    """Whom the beats ask, and where its topics lie."""

    name: str
    address: str
    bootstrap: str
    folder: Path


class Figures(NamedTuple):
    """What the reader got in MB/s, and the beats' latencies in microseconds: acknowledgement, then arrival."""

    read: float
    ack_p50: float
    ack_p99: float
    p50: float
    p99: float


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


class Behind:
    """What a reader of the cold topic leaves behind: it leaves the page cache."""

    def __init__(self, folder: Path, last: int) -> None:
        files = sorted(folder.glob(f"**/{COLD}-0/*.log"))
        bases = [int(file.stem) for file in files]
        self._segments = list(zip(files, bases, [*bases[1:], last], strict=True))
        self._from = 0
        self._last = last

    def drop(self, offset: int) -> None:
        """The records before this offset; at the topic's end all of them, once more."""
        if offset >= self._last:
            self._from = 0
        elif offset - self._from < DROPPED_RECORDS:
            return
        for file, base, end in self._segments:
            first, past = max(base, self._from), min(end, offset)
            if first < past:
                each = file.stat().st_size / (end - base)
                drop(file, int((first - base) * each), int((past - first) * each))
        self._from = offset if offset < self._last else 0


def drop(file: Path, position: int, length: int) -> None:
    """These bytes, to the end if length is 0, leave the page cache as far as they are on the disk."""
    descriptor = os.open(file, os.O_RDONLY)
    os.posix_fadvise(descriptor, position, length, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def read(address: str, last: int, seconds: float, rate: float, behind: Behind | None) -> None:
    """Reads the cold topic up to an offset, over and over for so long; prints MB/s. Rate 0 is as fast as it can."""
    os.nice(NICEST)
    offset, count, began, never = 0, 0, time.perf_counter(), threading.Event()
    answer = memoryview(bytearray(2 * MIB))
    with connect(address) as client:
        while (passed := time.perf_counter() - began) < seconds:
            if rate and (early := count / 1e6 / rate - passed) > 0:
                never.wait(early)
            client.send(fetch(COLD, offset, MIB, 0), 11)
            size = struct.unpack(">i", client.socket.recv(4, socket.MSG_WAITALL))[0]
            got = 0
            while got < size:
                got += client.socket.recv_into(answer[got : min(size, got + PIECE_BYTES)])
            count += size
            offset = next_offset(answer[ANSWER_HEAD:size])
            if behind is not None:
                behind.drop(offset)
            if offset >= last:
                offset = 0
    print(count / 1e6 / (time.perf_counter() - began))


def next_offset(records: memoryview) -> int:
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
        os.close(descriptor)
        drop(file, 0, 0)


def beside(peer: Peer, reader: Reader, seconds: float) -> Figures:
    """The beats beside a reader."""
    what = (peer.address, reader.end, seconds, reader.rate, peer.folder if reader.cold else "")
    own = [sys.executable, "-m", "bench.cold", "--read", *map(str, what)]
    with subprocess.Popen(own, stdout=subprocess.PIPE, text=True) as process:
        beats = beat(peer.address, seconds)
        said, _ = process.communicate(timeout=120)
    return figures(float(said), beats)


@contextmanager
def peers(folder: Path) -> Iterator[list[Peer]]:
    """Tailrace, and Apache Kafka where that can be run: one node of each on the disk, with the same segments."""
    settings = {"log.segment.bytes": "268435456", "offsets.topic.num.partitions": "1"}
    with ExitStack() as stack:
        ours = stack.enter_context(
            Cluster(data_dir=folder / "tailrace", settings={**settings, "gateway.advertise": "brokers"})
        )
        address = ours.addresses("broker")["client"].partition(",")[0]
        found = [Peer("Tailrace", address, ours.bootstrap, folder / "tailrace")]
        if why := kafka_peer.missing():
            say(f"without Apache Kafka, which needs {why}")
        else:
            kafka = servers.Kafka(folder / "kafka", settings)
            stack.callback(kafka.stop)
            kafka.start()
            found.append(Peer("Apache Kafka", kafka.bootstrap, kafka.bootstrap, folder / "kafka"))
        yield found


def fill(peer: Peer, gigabytes: float) -> None:
    """Makes its topics and writes the cold one."""
    admin = KafkaAdminClient(bootstrap_servers=peer.bootstrap)
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1} for topic in (COLD, TAIL)})
    admin.close()
    for topic in (COLD, TAIL):
        topics.settle(peer.address, topic, partitions=1)
    say(f"writing {gigabytes} GB to {peer.name}")
    count = int(gigabytes * 1e9) // (64 * 1024)
    how = {"record-size": 1024, "batch-size": 64 * 1024, "connections": 1, "in-flight": 5, "pin": True}
    done = load(peer.address, COLD, {**how, "requests": count, "warm-up": 0, "seconds": 600}, timeout_s=600)
    say(f"{done['requests']} batches")


def measure(options: argparse.Namespace) -> str:
    """The tables, by turns of the peers too, so that a slow minute is everybody's."""
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="tailrace-cold-") as name, peers(Path(name)) as found:
        measured: dict[str, dict[str, list[Figures]]] = {peer.name: {} for peer in found}
        for peer in found:
            fill(peer, options.gigabytes)
            beat(peer.address, WARM_UP_SECONDS)
        for _ in range(options.rounds):
            for peer in found:
                measure_round(peer, options, measured[peer.name])
        return "\n\n".join(table(name, rows) for name, rows in measured.items())


def measure_round(peer: Peer, options: argparse.Namespace, rows: dict[str, list[Figures]]) -> None:
    """One of each."""
    end = _end(peer.address)
    few = min(end, 64 * 1600)
    readers = {
        "a reader of cached data": Reader(few, options.rate, cold=False),
        "a reader of cached data, as fast as it can": Reader(few, 0, cold=False),
        "a reader of cold data at that rate": Reader(end, options.rate, cold=True),
        "a reader of cold data, as fast as it can": Reader(end, 0, cold=True),
    }
    rows.setdefault("nobody", []).append(figures(0, beat(peer.address, options.seconds)))
    for name, reader in readers.items():
        if reader.cold:
            drop_caches(peer.folder)
            beat(peer.address, SETTLE_SECONDS)
        else:
            beside(peer, reader, 1)
        rows.setdefault(name, []).append(beside(peer, reader, options.seconds))


def figures(read_mb: float, beats: Beats) -> Figures:
    both = (beats.acknowledged, beats.arrived)
    return Figures(read_mb, *(f(values) for values in both for f in (statistics.median, p99)))


def table(peer: str, rows: dict[str, list[Figures]]) -> str:
    """The medians of one peer; each p99 also as a multiple of the one without a reader; the aim is 1.5."""
    measured = {name: Figures(*map(statistics.median, zip(*values, strict=True))) for name, values in rows.items()}
    alone = measured["nobody"]
    lines = [
        f"| {peer} beside | read MB/s | ack p50 µs | ack p99 µs | x alone | arrival p50 µs | arrival p99 µs | x alone |"
    ]
    lines.append("|---" + "|--:" * 7 + "|")
    for name, one in measured.items():
        acks = (one.ack_p50, one.ack_p99, one.ack_p99 / alone.ack_p99)
        lines.append(ROW.format(name, one.read, *acks, one.p50, one.p99, one.p99 / alone.p99))
        say(lines[-1])
    return "\n".join(lines)


def read_ahead_kb(folder: Path) -> str:
    """How far the kernel reads ahead on the disk that holds a folder; "unknown" where it is no disk."""
    number = folder.stat().st_dev
    disk = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    for place in (disk, disk.parent):  # a partition's is its disk's
        if (file := place / "queue/read_ahead_kb").exists():
            return file.read_text().strip()
    return "unknown"


def _end(address: str) -> int:
    with connect(address) as client:
        return int(client.ask(fetch(COLD, 0, 1, 0), 11).responses[0].partitions[0].high_watermark)


def main(arguments: list[str]) -> None:
    """Measures and writes the report's section."""
    if arguments[:1] == ["--read"]:
        address, last, seconds, rate, folder = arguments[1:]
        behind = Behind(Path(folder), int(last)) if folder else None
        read(address, int(last), float(seconds), float(rate), behind)
        return
    parser = argparse.ArgumentParser(prog="python -m bench.cold", description="Never fails.")
    parser.add_argument("--gigabytes", type=float, default=8.0, help="size of the cold topic")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=3, help="turns of the five measurements")
    parser.add_argument("--rate", type=float, default=400.0, help="MB/s of the readers that do not take all they get")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="a folder on a disk")
    parser.add_argument("--output", type=Path, default=report.DOCUMENT, help="the report to rewrite")
    options = parser.parse_args(arguments)
    build_client()
    table = measure(options)
    command = " ".join(["PYTHONPATH=tests python -m bench.cold", *arguments])
    disk = f"The disk's read_ahead_kb is {read_ahead_kb(options.folder)}. Command: `{command}`."
    report.write_section("cold", "\n".join([*machine.describe(), disk, "", table]), options.output)


if __name__ == "__main__":
    main(sys.argv[1:])
