"""`tailrace perf end-to-end`: a record at a time, from its send to its arrival at a reader that waits for it."""

from __future__ import annotations

import asyncio
from typing import Final

from tailrace.cli.daily.connection import command_settings
from tailrace.cli.daily.nodes import CLIENT_ID, Nodes
from tailrace.cli.daily.refusals import RefusedError, lines
from tailrace.cli.perf.producing import payloads
from tailrace.cli.perf.stats import Latencies, MeasuredRun
from tailrace.clock import Clock
from tailrace.net.client import Client
from tailrace.processor_time import process_time_s
from tailrace.reading.reader import TopicReader
from tailrace.reading.start import LATEST
from tailrace.records.record import Record, build
from tailrace.wire import messages as m
from tailrace.wire.response_errors import response_errors

_WAIT_MS: Final = 500
_TIMEOUT_MS: Final = 30_000
_PRODUCE_VERSION: Final = 9


def measured(
    cluster: Nodes, topic: str, *, num_records: int, record_size: int, acks: int
) -> tuple[MeasuredRun, dict[str, float]]:
    """The run and its latencies. The record goes over a connection of its own: a Fetch that waits holds one up."""
    partitions = cluster.partitions([topic])
    (_, index), part = min(partitions.items())
    if (at := cluster.addresses().get(part.leader_id)) is None:
        raise RefusedError(f"{topic}-{index}: no broker leads it")
    settings = command_settings()
    writer = Client(at, CLIENT_ID, tls=settings.tls, login=settings.login)
    reader = TopicReader(cluster.exchange, cluster.clock, topic, patience_ms=cluster.deadline.patience_ms)
    latencies = Latencies(num_records)
    values = payloads(record_size)

    async def measure() -> MeasuredRun:
        try:
            reader.assign(await reader.find(LATEST, partitions=[index]))
            begun_ms, begun_cpu_s = cluster.clock.monotonic_ms(), process_time_s()
            for number in range(num_records):
                cluster.deadline.check("a record's arrival")
                value = values[number % len(values)]
                request = _request(cluster.clock, topic, index, value, acks)
                latencies.add(await _one(cluster, writer, reader, request, value))
            return MeasuredRun(
                num_records,
                num_records * record_size,
                (cluster.clock.monotonic_ms() - begun_ms) / 1000,
                process_time_s() - begun_cpu_s,
            )
        finally:
            await reader.close()
            await writer.close()

    return cluster.run(measure()), latencies.summary()


async def _one(cluster: Nodes, writer: Client, reader: TopicReader, request: m.ProduceRequest, value: bytes) -> float:
    """Milliseconds from the send to the record's arrival; others may write, too."""
    sent_ms = cluster.clock.monotonic_ms()
    written = asyncio.ensure_future(writer.ask(request, timeout_ms=_TIMEOUT_MS, version=_PRODUCE_VERSION))
    try:
        while not any(record.value == value for _, record in await reader.poll(_WAIT_MS)):
            cluster.deadline.check_patience(sent_ms, "a record's arrival")
            if written.done():
                _check(written.result())
        arrived_ms = cluster.clock.monotonic_ms()
        _check(await written)
    finally:
        written.cancel()
    return arrived_ms - sent_ms


def _check(answer: m.ProduceResponse) -> None:
    if errors := list(response_errors(m.ProduceRequest.API_KEY, answer)):
        raise RefusedError(lines(errors))


def _request(clock: Clock, topic: str, partition: int, value: bytes, acks: int) -> m.ProduceRequest:
    row = m.ProduceRequest.TopicProduceData
    record = Record(timestamp=clock.wall_ms(), value=value)
    data = row.PartitionProduceData(index=partition, records=bytes(build([record])))
    return m.ProduceRequest(
        transactional_id=None, acks=acks, timeout_ms=_TIMEOUT_MS, topic_data=[row(name=topic, partition_data=[data])]
    )
