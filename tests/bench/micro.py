"""`python -m bench.micro`: what single steps cost, in CPU µs, in one process. Where a request's time goes, not what a
cluster does: docs/benchmarks.md has that beside it.
"""

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import machine, report
from tailrace.log.config import LogConfig
from tailrace.log.filesystem.guard import Guard
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.log.log import Log
from tailrace.log.retention import delete_retention
from tailrace.records.batch import validate
from tailrace.records.record import Record, build
from tailrace.wire.apis import ApiKey
from tailrace.wire.codec import decode_request, encode_request, encode_response
from tailrace.wire.header import parse_request_header
from tailrace.wire.hot.fetch import PartitionData, decode_fetch, encode_fetch_answer
from tailrace.wire.hot.fetch_heads import FetchHeads
from tailrace.wire.hot.produce import decode_produce, encode_produce_answer
from tailrace.wire.messages import (
    FetchRequest,
    MetadataRequest,
    MetadataResponse,
    OffsetCommitRequest,
    ProduceRequest,
)

ROUNDS = 5
SECONDS = 0.2
SIZES = {"100 B": 100, "1 KiB": 1024, "16 KiB": 16 << 10, "128 KiB": 128 << 10, "900 KiB": 900 << 10}
TOPIC = b"bench"
COMMITTED = 20_000  # partitions, the most of one request
SEGMENT_BYTES = 64 << 20
Step = Callable[[], object]


def batch_of(size: int) -> bytearray:
    """One record up to 1 KiB, above as many of 1 KiB as fit."""
    count = max(1, size // 1100)
    return build([Record(timestamp=1, value=bytes(min(size, 1024)))] * count)


def cost_us(step: Step) -> float:
    """CPU µs per call: the median of some rounds."""
    rounds = []
    for _ in range(ROUNDS):
        calls, began = 0, time.process_time()
        while (spent := time.process_time() - began) < SECONDS:
            for _ in range(50):
                step()
            calls += 50
        rounds.append(spent / calls * 1e6)
    return statistics.median(rounds)


def codec_steps() -> dict[str, Step]:
    """The schema-driven codec, that everything but Produce and Fetch goes through."""
    frame = memoryview(encode_request(MetadataRequest(topics=None), 12, 7, "bench"))[4:]
    header = parse_request_header(frame)
    topic = MetadataResponse.MetadataResponseTopic
    partition = topic.MetadataResponsePartition
    rows = [partition(partition_index=n, leader_id=0, replica_nodes=[0], isr_nodes=[0]) for n in range(6)]
    topics = [topic(name=f"topic-{n}", partitions=rows) for n in range(10)]
    answer = MetadataResponse(
        brokers=[MetadataResponse.MetadataResponseBroker(node_id=0, host="localhost", port=9092)], topics=topics
    )
    return {
        "read a request's header": lambda: parse_request_header(frame),
        "decode Metadata v12": lambda: decode_request(ApiKey.METADATA, 12, frame[header.body_offset :]),
        "encode Metadata v12, 10 topics of 6 partitions": lambda: encode_response(answer, 12, 7),
    }


def commit_step() -> Step:
    """The long request that consumers send most: offsets of as many partitions as one may have."""
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    row = topic.OffsetCommitRequestPartition
    rows = [row(partition_index=n, committed_offset=n, committed_metadata="") for n in range(COMMITTED // 200)]
    topics = [topic(name=f"topic-{n}", partitions=rows) for n in range(200)]
    message = OffsetCommitRequest(group_id="g", member_id="m", group_instance_id=None, topics=topics)
    frame = memoryview(bytes(encode_request(message, 9, 7, "bench")))[4:]
    body = frame[parse_request_header(frame).body_offset :]
    return lambda: decode_request(ApiKey.OFFSET_COMMIT, 9, body)


def produce_steps(size: int) -> dict[str, Step]:
    """A Produce request from frame to checked batch, and its answer."""
    batch = batch_of(size)
    row = ProduceRequest.TopicProduceData
    data = row.PartitionProduceData(index=0, records=bytes(batch))
    message = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[row(name="bench", partition_data=[data])])
    frame = memoryview(encode_request(message, 9, 7, "bench"))[4:]
    body = frame[parse_request_header(frame).body_offset :]
    return {
        "decode": lambda: decode_produce(9, body),
        "CRC and header check": lambda: validate(batch),
        "answer": lambda: encode_produce_answer(9, 7, [(TOPIC, [(0, 0, 5, -1, 0)])]),
    }


def log_steps(size: int, folder: Path) -> tuple[dict[str, Step], Log]:
    """Appending one batch, appending twenty with one write (per batch), reading one back with its answer."""
    config = LogConfig(segment_bytes=SEGMENT_BYTES, retention_bytes=SEGMENT_BYTES, file_delete_delay_ms=0)
    log = Log.open(Guard(RealFilesystem()), str(folder / f"bench-{size}"), config)
    batch = batch_of(size)
    many = [bytearray(batch) for _ in range(20)]

    def append() -> None:
        log.append([batch], 0, 1)
        if log.size_bytes > 2 * SEGMENT_BYTES:
            _recycle(log)

    def append_many() -> None:
        log.append(many, 0, 1)
        if log.size_bytes > 2 * SEGMENT_BYTES:
            _recycle(log)

    return {"append one": append, "append 20 at once": append_many}, log


def _recycle(log: Log) -> None:
    """Drops old segments, so that the measured appends write to memory that was touched before."""
    delete_retention(log, 1, log.log_end_offset)
    for path in log.segments.pending_deletions.due(1):
        Path(path).unlink()


def fetch_steps(log: Log, size: int) -> dict[str, Step]:
    """Decoding a Fetch, reading the log and building the answer."""
    topic = FetchRequest.FetchTopic
    row = topic.FetchPartition(partition=0, fetch_offset=log.log_start_offset, partition_max_bytes=size)
    message = FetchRequest(
        max_wait_ms=1, session_id=0, session_epoch=-1, topics=[topic(topic="bench", partitions=[row])], rack_id=""
    )
    frame = memoryview(encode_request(message, 12, 7, "bench"))[4:]
    body = frame[parse_request_header(frame).body_offset :]
    records = log.read(log.log_start_offset, size).read()
    data = [(TOPIC, [PartitionData(0, 0, 9, 9, 0, records)])]
    heads = FetchHeads()
    head = heads.learn(12, body, decode_fetch(12, body))
    return {
        "decode Fetch": lambda: decode_fetch(12, body),
        "recognise Fetch": lambda: heads.read(12, body),
        "read": lambda: log.read(log.log_start_offset, size).read(),
        "answer Fetch": lambda: encode_fetch_answer(12, 7, 0, 0, data),
        "answer recognised Fetch": lambda: head.answer(7, 9, 0, records),
    }


def table(folder: Path) -> str:
    """Measures everything and answers two Markdown tables."""
    lines = ["| schema-driven codec | CPU µs |", "|---|--:|"]
    lines += [f"| {name} | {cost_us(step):.1f} |" for name, step in codec_steps().items()]
    each_us = cost_us(commit_step()) / COMMITTED
    lines.append(f"| decode OffsetCommit v9: each of {COMMITTED:,} partitions, of 200 topics | {each_us:.2f} |")
    columns: dict[str, dict[str, float]] = {}
    for label, size in SIZES.items():
        steps, log = log_steps(size, folder)
        steps = produce_steps(size) | steps
        columns[label] = {name: cost_us(step) for name, step in steps.items()}
        columns[label]["append 20 at once"] /= 20
        columns[label] |= {name: cost_us(step) for name, step in fetch_steps(log, size).items()}
        log.close()
        print(label, columns[label], flush=True)
    names = list(next(iter(columns.values())))
    lines += ["", "| hot path, CPU µs per batch | " + " | ".join(columns) + " |", "|---" + "|--:" * len(columns) + "|"]
    lines += [
        f"| {name} | " + " | ".join(f"{column[name]:.1f}" for column in columns.values()) + " |" for name in names
    ]
    return "\n".join(lines)


def main() -> None:
    """Rewrites the section `micro` of docs/benchmarks.md, or of the file named as the only argument."""
    if sys.argv[1:2] and sys.argv[1].startswith("-"):
        sys.exit("usage: python -m bench.micro [FILE]")
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else report.DOCUMENT
    shared_memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="tailrace-micro-", dir=shared_memory if shared_memory.is_dir() else None))
    try:
        text = "\n".join(
            [
                *machine.describe(kafka=False),
                "Command: `PYTHONPATH=tests python -m bench.micro`.",
                "",
                table(folder),
            ]
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report.write_section("micro", text, path)


if __name__ == "__main__":
    main()
