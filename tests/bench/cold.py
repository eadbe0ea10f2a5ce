"""`PYTHONPATH=tests python -m bench.cold`: what a consumer of cold data costs those beside it.

A broker on a disk (`--folder`), a topic of several gigabytes whose pages are dropped from the page cache, and a
client that produces a record every two milliseconds and waits for its acknowledgement and for its arrival at a
long-polling consumer. Its p99 alone, beside a reader of data in the cache at a given rate and one that takes all it
gets, and beside two such readers of cold data; by turns, the medians count. The same for Apache Kafka, in turns with
Tailrace, as a measure of what the machine allows.

The reader stands for a consumer on another machine, so it takes as little of this one as it can: it decodes nothing but
offsets, and gives way to all others (nice 19). Memory is full of other pages, as on a machine that has been at work for
longer than its memory lasts (memory.py says why that matters; `--free-memory` leaves it as it is). Each run beside a
reader is set against those alone right before and after it, as pairs.py does, because a shared machine is not the same
for a minute.
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kafka.admin import KafkaAdminClient

from bench import machine, pairs, report, servers, topics
from bench.client import build as build_client
from bench.client import load
from bench.memory import add_option, memory
from bench.report import say
from support import batches, kafka_peer
from support.raw import Raw, build, framed, request_header
from tailrace.testing import Cluster

PRODUCE, FETCH = 0, 1
COLD, TAIL = "cold", "tail"
MIB = 1 << 20
BEAT_SECONDS = 0.002
PLACE = struct.Struct(">qi11xi")  # base offset, batch length, last offset delta
HEADER = (
    "| {} beside | read MB/s | ack p50 µs | p99 | x alone | 95 % range "  # a p99 as a multiple of the one alone
    "| arrival p50 µs | p99 | x alone | 95 % range | |"
)
ROW = "| {} | {:,.0f} | {:,.0f} | {:,.0f} | {:.2f} | {} | {:,.0f} | {:,.0f} | {:.2f} | {} | {} |"
NOBODY = "nobody"
AIM = 1.5  # a p99 beside a reader is at most so many times the one alone
ANSWER_HEAD = 60  # bytes before the records in an answer for one partition of COLD, version 12
PIECE_BYTES = 65_536
NICEST = 19
BEGINS = "reading"
ANY_OFFSET = 0x123456789ABCDEF
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


def fetch(topic: str, offset: int, max_bytes: int, max_wait_ms: int) -> Any:
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


def read(address: str, last: int, seconds: float, rate: float) -> None:
    """Reads the cold topic up to an offset, over and over for so long; prints MB/s. Rate 0 is as fast as it can.

    Says before that it is about to begin: who is beside it is not to meet the start of an interpreter.
    """
    give_way()
    never, head = threading.Event(), bytearray(4 + ANSWER_HEAD + PLACE.size)
    request, place = reading_request()
    with connect(address) as client:
        print(BEGINS, flush=True)
        offset, count, began = 0, 0, time.perf_counter()
        while (passed := time.perf_counter() - began) < seconds:
            if rate and (early := count / 1e6 / rate - passed) > 0:
                never.wait(early)
            struct.pack_into(">q", request, place, offset)
            client.socket.sendall(request)
            receive(client.socket, memoryview(head))
            size = int.from_bytes(head[:4], "big")
            discard(client.socket, 4 + size - len(head))
            count += size
            offset = next_offset(head, size - ANSWER_HEAD)
            if offset >= last:
                offset = 0
    print(count / 1e6 / (time.perf_counter() - began))


def give_way() -> None:
    """Whoever else wants the processor gets it, also where Linux shares it by sessions (sched(7), autogroup)."""
    os.setsid()
    os.nice(NICEST)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(NICEST))


def reading_request() -> tuple[bytearray, int]:
    """A fetch of a mebibyte as it is sent, and where its offset lies: encoded once, not again for each."""
    body = fetch(COLD, ANY_OFFSET, MIB, 0).encode(version=12)
    request = bytearray(framed(request_header(FETCH, 12, 0, "cold", flexible=True) + body))
    return request, request.index(struct.pack(">q", ANY_OFFSET))


def receive(sock: socket.socket, place: memoryview) -> None:
    """All of it, in as many pieces as it comes."""
    while place:
        count = sock.recv_into(place)
        if not count:
            raise ConnectionError("the answer ended early")
        place = place[count:]


def discard(sock: socket.socket, size: int) -> None:
    """So many bytes have arrived, and nobody copies them (tcp(7): MSG_TRUNC)."""
    nothing = bytearray(PIECE_BYTES)
    while size > 0:
        count = sock.recv_into(nothing, min(size, PIECE_BYTES), socket.MSG_TRUNC)
        if not count:
            raise ConnectionError("the answer ended early")
        size -= count


def next_offset(head: bytes | bytearray, size: int) -> int:
    """Behind the last whole one of so many bytes of batches, all of which are like the first."""
    base, length, delta = PLACE.unpack_from(head, 4 + ANSWER_HEAD)
    return int(base + size // (12 + length) * (delta + 1))


def drop_caches(folder: Path) -> None:
    """Only the cold topic's pages leave the cache."""
    for file in folder.glob(f"**/{COLD}-0/*.log"):
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def fill_caches(folder: Path) -> None:
    """The first segment of the cold topic is in the page cache; a reader would bring part of it elsewhere."""
    file = min(folder.glob(f"**/{COLD}-0/*.log"))
    with file.open("rb", buffering=0) as segment:
        while segment.read(MIB):
            pass


def beside(peer: Peer, reader: Reader, seconds: float) -> Figures:
    """The beats beside a reader."""
    what = (peer.address, reader.end, seconds, reader.rate)
    own = [sys.executable, "-m", "bench.cold", "--read", *map(str, what)]
    with subprocess.Popen(own, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        if first.strip() != BEGINS:
            raise RuntimeError(f"the reader did not begin: {first!r}")
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


@dataclass
class Row:
    """The runs beside one reader, and their p99 as multiples of those of the runs alone before and after each."""

    runs: list[Figures] = field(default_factory=list)
    acks: list[float] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)

    def add(self, before: Figures, between: Figures, after: Figures) -> None:
        """A run and its neighbours."""
        self.runs.append(between)
        self.acks.append(2 * between.ack_p99 / (before.ack_p99 + after.ack_p99))
        self.arrivals.append(2 * between.p99 / (before.p99 + after.p99))


def measure(options: argparse.Namespace) -> str:
    """The tables, by turns of the peers too, so that a slow minute is everybody's."""
    with ExitStack() as stack:
        found = stack.enter_context(peers(machine.fresh_folder(stack, options.folder)))
        measured: dict[str, dict[str, Row]] = {peer.name: {} for peer in found}
        for peer in found:
            fill(peer, options.gigabytes)
            beat(peer.address, WARM_UP_SECONDS)
        fill_memory = memory(stack, free=options.free_memory)
        for number in range(options.rounds):
            for peer in found:
                measure_round(peer, options, fill_memory, measured[peer.name])
            say(f"round {number + 1} of {options.rounds} is over")
        return "\n\n".join(table(name, rows) for name, rows in measured.items())


def measure_round(
    peer: Peer, options: argparse.Namespace, fill_memory: Callable[[], None], rows: dict[str, Row]
) -> None:
    """One of each, with a run alone before and after it; such a one against the one before it is the control."""
    end = _end(peer.address)
    few = min(end, 64 * 1600)
    readers = {
        "a reader of cached data": Reader(few, options.rate, cold=False),
        "a reader of cached data, as fast as it can": Reader(few, 0, cold=False),
        "a reader of cold data at that rate": Reader(end, options.rate, cold=True),
        "a reader of cold data, as fast as it can": Reader(end, 0, cold=True),
    }
    before = figures(0, beat(peer.address, options.seconds))
    for name, reader in readers.items():
        if reader.cold:
            drop_caches(peer.folder)
        else:
            fill_caches(peer.folder)
        fill_memory()
        between = beside(peer, reader, options.seconds)
        after = figures(0, beat(peer.address, options.seconds))
        rows.setdefault(NOBODY, Row()).add(before, after, before)
        rows.setdefault(name, Row()).add(before, between, after)
        before = after


def figures(read_mb: float, beats: Beats) -> Figures:
    both = (beats.acknowledged, beats.arrived)
    return Figures(read_mb, *(f(values) for values in both for f in (statistics.median, p99)))


def table(peer: str, rows: dict[str, Row]) -> str:
    """The medians of one peer; each p99 also as a multiple of the one without a reader, with the median's range."""
    lines = [HEADER.format(peer), "|---" + "|--:" * 9 + "|---|"]
    for name, row in rows.items():
        middle = Figures(*map(statistics.median, zip(*row.runs, strict=True)))
        aim = report.NOTHING if name == NOBODY else verdict(row)
        acks = (middle.ack_p50, middle.ack_p99, *multiple(row.acks))
        lines.append(ROW.format(name, middle.read, *acks, middle.p50, middle.p99, *multiple(row.arrivals), aim))
    say("\n".join(lines))
    return "\n".join(lines)


def multiple(ratios: list[float]) -> tuple[float, str]:
    """The median, and where the true one lies with 95 %."""
    low, high = pairs.median_range(ratios)
    return statistics.median(ratios), f"{low:.2f}-{high:.2f}"


def verdict(row: Row) -> str:
    """Kept where both ranges lie below the aim, missed where one lies above it, else open."""
    ranges = [pairs.median_range(ratios) for ratios in (row.acks, row.arrivals)]
    return pairs.settled([(high <= AIM, low > AIM) for low, high in ranges], len(row.acks))


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
        address, last, seconds, rate = arguments[1:]
        read(address, int(last), float(seconds), float(rate))
        return
    parser = argparse.ArgumentParser(prog="python -m bench.cold", description="Never fails.")
    parser.add_argument("--gigabytes", type=float, default=5.0, help="size of the cold topic")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=7, help="turns of the five measurements")
    add_option(parser)
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
