"""`PYTHONPATH=tests python -m bench.compaction`: the cleaner's MB/s, and what a producer feels while it runs.

The first table gives a log of random keys to the cleaner process alone. The second one measures a producer of 1 KiB
records at a fixed rate, with and without a pass on another topic of the same broker, in turns. It reports only.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
import urllib.request
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from bench import client
from bench.report import say
from bench.section import Section
from support.raw import Raw, build
from tailrace.log.compaction import plan
from tailrace.log.config import LogConfig
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.log.log import Log
from tailrace.records import record as records
from tailrace.records.compression import Codec
from tailrace.testing import Cluster
from tailrace_broker.compaction.worker import ProcessWorker

SECTION = Section("compaction", "bench.compaction")
PRODUCE, PRODUCE_VERSION = 0, 9
BATCH_BYTES = 16 * 1024
SEGMENT_BYTES = 16 * 1024 * 1024
DISTURBING = 6  # times --megabytes, so that the pass outlasts the measurement beside it
NEVER, AT_ONCE = "1.0", "0.0"  # min.cleanable.dirty.ratio
CASES = (
    ("100 B", 100, Codec.NONE),
    ("1 KiB", 1024, Codec.NONE),
    ("16 KiB", 16 * 1024, Codec.NONE),
    ("1 KiB, lz4", 1024, Codec.LZ4),
    ("1 KiB, zstd", 1024, Codec.ZSTD),
)


def parse(arguments: list[str]) -> Namespace:
    """The command line."""
    parser = SECTION.parser("Measures compaction.")
    parser.add_argument("--megabytes", type=int, default=200, help="size of a log that is compacted")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of one measurement of the producer")
    parser.add_argument("--rounds", type=int, default=3, help="measurements; the median counts")
    parser.add_argument("--rate", type=int, default=2000, help="the producer's requests per second")
    return parser.parse_args(arguments)


def batches(megabytes: int, size: int, codec: Codec, choice: random.Random) -> Iterator[bytearray]:
    """Batches of 16 KiB and more, each key about four times in all of them."""
    count = max(1, BATCH_BYTES // size)
    keys = max(1, megabytes * 1_000_000 // size // 4)
    value = choice.randbytes(size // 2).hex().encode()
    now_ms = int(time.time() * 1000)
    done = 0
    while done < megabytes * 1_000_000:
        rows = [
            records.Record(timestamp=now_ms, key=b"%012d" % choice.randrange(keys), value=value) for _ in range(count)
        ]
        yield records.build(rows, compression=codec)
        done += count * size


async def clean_alone(folder: Path, megabytes: int, size: int, codec: Codec) -> tuple[float, float, float, float]:
    """(MB of log per second, MB of records per second, seconds, share of the log that stayed), the cleaner alone."""
    settings = LogConfig(cleanup_policy="compact", segment_bytes=SEGMENT_BYTES, min_cleanable_dirty_ratio=0.0)
    log = Log.open(RealFilesystem(), str(folder / "log-0"), settings)
    for batch in batches(megabytes, size, codec, random.Random(1)):
        log.append([batch], 0, 0, from_client=False)
    log.roll()
    log.flush()
    compaction = plan.begin(log, int(time.time() * 1000), log.log_end_offset)
    worker = ProcessWorker(os.memfd_create("pace"))
    assert compaction is not None
    before = log.size_bytes
    try:
        began = time.perf_counter()
        outcome = await worker.run(compaction.job)
        seconds = time.perf_counter() - began
    finally:
        await worker.close()
        shutil.rmtree(folder / "log-0")
    return before / 1e6 / seconds, megabytes / seconds, seconds, outcome.bytes_written / before


def speeds(options: Namespace, folder: Path) -> list[str]:
    """The first table."""
    lines = ["| records | MB of log/s | MB of records/s | seconds | of the log stays |", "|---|--:|--:|--:|--:|"]
    for name, size, codec in CASES:
        runs = [asyncio.run(clean_alone(folder, options.megabytes, size, codec)) for _ in range(options.rounds)]
        speed, content, seconds, share = (statistics.median(run[column] for run in runs) for column in range(4))
        lines.append(f"| {name} | {speed:.0f} | {content:.0f} | {seconds:.1f} | {share:.0%} |")
        say(lines[-1])
    return lines


def fill(cluster: Cluster, topic: str, megabytes: int) -> None:
    """Writes a compacted topic through the gateway."""
    host, _, port = cluster.bootstrap.rpartition(":")
    with Raw(host, int(port), timeout_s=30) as raw:
        for batch in batches(megabytes, 1024, Codec.NONE, random.Random(2)):
            partition = {"index": 0, "records": bytes(batch)}
            rows = [{"name": topic, "partition_data": [partition]}]
            request = build(PRODUCE, transactional_id=None, acks=1, timeout_ms=10_000, topic_data=rows)
            answer = raw.ask(request, PRODUCE_VERSION)
            assert answer.responses[0].partition_responses[0].error_code == 0, answer


def passes(cluster: Cluster) -> float:
    """How many the broker has finished."""
    address = cluster.addresses("broker")["http"]
    with urllib.request.urlopen(f"http://{address}/metrics") as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("tailrace_cleaner_passes_total"):
                return float(line.split()[-1])
    raise LookupError("the broker shows no tailrace_cleaner_passes_total")


def producer(cluster: Cluster, options: Namespace) -> client.Result:
    """One measurement of 1 KiB records at the rate, one in a batch, acks=1."""
    flags = {"connections": 1, "mode": "produce", "record-size": 1024, "batch-size": 0, "in-flight": 20}
    pids = [cluster.process_id("broker")]
    return client.load(
        cluster.bootstrap, "plain", {**flags, "rate": options.rate, "seconds": options.seconds, "warm-up": 0.5}, pids
    )


def disturbance(options: Namespace, folder: Path) -> list[str]:
    """The second table, and a remark where a pass was over before its measurement."""
    runs: dict[str, list[client.Result]] = {"no pass": [], "during a pass": []}
    short = 0
    settings = {"log.cleaner.backoff.ms": "50"}
    with Cluster(data_dir=folder / "cluster", settings=settings) as cluster:
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        admin.create_topics({"plain": {"num_partitions": 1, "replication_factor": 1}})
        for number in range(options.rounds):
            topic = f"compacted-{number}"
            configs = {
                "cleanup.policy": "compact",
                "segment.bytes": str(SEGMENT_BYTES),
                "min.cleanable.dirty.ratio": NEVER,
            }
            admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1, "configs": configs}})
            fill(cluster, topic, options.megabytes * DISTURBING)
            runs["no pass"].append(producer(cluster, options))
            before = passes(cluster)
            configs["min.cleanable.dirty.ratio"] = AT_ONCE
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=configs)])
            runs["during a pass"].append(producer(cluster, options))
            short += passes(cluster) > before
            admin.delete_topics([topic])
        admin.close()
    lines = ["| producer of 1 KiB | requests/s | p50 µs | p99 µs | broker CPU µs/request |", "|---|--:|--:|--:|--:|"]
    keys = ("requests_per_second", "p50_us", "p99_us", "server_cpu_us")
    for name, results in runs.items():
        figures = (statistics.median(float(result[key]) for result in results) for key in keys)
        lines.append(f"| {name} | {' | '.join(f'{figure:,.0f}' for figure in figures)} |")
        say(lines[-1])
    if short:
        lines += ["", f"In {short} of {options.rounds} rounds the pass was over before the measurement was."]
    return lines


def main(arguments: list[str]) -> None:
    """Measures what it can and says what it could not."""
    options = parse(arguments)
    if problem := client.missing():
        say(f"nothing to measure with: {problem}")
        return
    client.build()
    folder = Path(tempfile.mkdtemp(prefix="tailrace-bench-"))
    try:
        lines = [*speeds(options, folder), "", *disturbance(options, folder)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    SECTION.write(lines, arguments, options.output)


if __name__ == "__main__":
    main(sys.argv[1:])
