"""Streams the lines into a topic with kafka-python, reads them back in a consumer group of three, compares."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tailrace.cli.demo.failure import Failure
from tailrace.cli.demo.group import MEMBERS, DemoGroup
from tailrace.cli.demo.tally import Tally
from tailrace.runtime.clock import SystemClock

TOPIC = "machine-logs"
GROUP = "machine-log-readers"
PARTITIONS = 6
_JOIN_SECONDS = 60.0
_READ_SECONDS = 120.0
_STEP_PERCENT = 20
NOTHING_LOST = " A leader was killed in the middle: no line that was acknowledged is lost, and none is there twice."
Show = Callable[[int, int], None]


class JobFailed(Exception):
    """The job did not end as it must; the text says how."""


def run_job(bootstrap: str, lines: Sequence[bytes], failure: Failure | None = None) -> str:
    """Returns the report. Raises JobFailed where counts or checksums differ. The failure strikes in the middle."""
    run = f"{os.getpid()}-{SystemClock().wall_ms()}"
    with DemoGroup(bootstrap, TOPIC, GROUP, run) as group:
        if not group.wait_for(lambda: all(group.assigned), _JOIN_SECONDS, lambda: None):
            raise JobFailed(f"the group of {MEMBERS} did not form within {_JOIN_SECONDS:g} s")
        clock = SystemClock()
        with progress(len(lines)) as show:
            began_ms = clock.monotonic_ms()
            sent = produce(bootstrap, lines, run, lambda count: show(count, group.total.records), failure)
            produced_ms = clock.monotonic_ms() - began_ms
            group.wait_for(
                lambda: group.total.records >= sent.records,
                _READ_SECONDS,
                lambda: show(sent.records, group.total.records),
            )
            read_ms = clock.monotonic_ms() - began_ms
        members = [tally.records for tally in group.tallies]
        received = group.total
    report = "\n".join(
        (
            f"  produced   {sent.shown} in {produced_ms / 1000:.1f} s: {rates(sent, produced_ms)}",
            f"  read back  {received.shown} in {read_ms / 1000:.1f} s: {rates(received, read_ms)}",
            f"  by member  {' + '.join(f'{records:,}' for records in members)}, {PARTITIONS} partitions",
        )
    )
    if failure is not None:
        report = f"{report}\n{failure.aftermath()}"
    if sent != received:
        raise JobFailed(f"what was read is not what was written:\n{report}")
    killed = "" if failure is None else NOTHING_LOST
    return f"{report}\n  Counts and checksums match.{killed}"


def rates(tally: Tally, elapsed_ms: float) -> str:
    seconds = max(elapsed_ms, 1.0) / 1000
    return f"{tally.records / seconds:,.0f} lines/s, {tally.size_bytes / 1e6 / seconds:,.1f} MB/s"


def create_topic(bootstrap: str) -> None:
    from kafka import KafkaAdminClient
    from kafka.errors import TopicAlreadyExistsError

    admin: Any = KafkaAdminClient(bootstrap_servers=bootstrap, client_id="demo-admin")
    try:
        admin.create_topics({TOPIC: {"num_partitions": PARTITIONS, "replication_factor": -1}})
    except TopicAlreadyExistsError:
        pass
    finally:
        admin.close()


def produce(
    bootstrap: str, lines: Sequence[bytes], run: str, show: Callable[[int], None], failure: Failure | None = None
) -> Tally:
    """Sends every line with acks=all and returns what was acknowledged. Raises the first error of a send."""
    from kafka import KafkaProducer

    producer: Any = KafkaProducer(
        bootstrap_servers=bootstrap, client_id="demo-writer", acks="all", linger_ms=20, batch_size=131_072
    )
    tally = Tally()
    failures: list[BaseException] = []
    headers = [("run", run.encode())]
    acknowledged = [0]

    def on_acknowledged(where: Any) -> None:
        acknowledged[0] += 1  # the sender thread alone
        if failure is not None:
            failure.acknowledged(where.partition)

    for number, line in enumerate(lines, 1):
        producer.send(TOPIC, value=line, headers=headers).add_callback(on_acknowledged).add_errback(failures.append)
        tally = tally.plus(line)
        if number % 1000 == 0:
            show(number)
        if failure is not None and number == len(lines) // 2:
            failure.strike(in_flight=number - acknowledged[0])
    producer.flush()
    producer.close()
    if failures:
        raise JobFailed(f"{len(failures):,} lines were refused, the first with {failures[0]!r}")
    return tally


@contextmanager
def progress(total: int) -> Iterator[Show]:
    """Two bars on a terminal, a line per fifth elsewhere."""
    if not sys.stdout.isatty():
        yield _printed(total)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("  {task.description:10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as bars:
        written, read = (bars.add_task(name, total=total) for name in ("produced", "read back"))

        def show(produced: int, received: int) -> None:
            bars.update(written, completed=produced)
            bars.update(read, completed=received)

        yield show


def _printed(total: int) -> Show:
    shown = 0

    def show(produced: int, received: int) -> None:
        nonlocal shown
        percent = received * 100 // total
        if percent >= shown + _STEP_PERCENT:
            shown = percent - percent % _STEP_PERCENT
            sys.stdout.write(f"  produced {produced:,} read back {received:,} of {total:,} ({percent} %)\n")
            sys.stdout.flush()

    return show
