"""`PYTHONPATH=tests python -m bench.fencing`: what it takes to fence one of three brokers that share 9,000 partitions.

A controller in this process on an SQLite file: from the proof that the broker is gone to the moment when new leaders
and ISRs are written, projected for SQL and published. The broker leads a third and is in every ISR.
CPU ms by step, so that it shows where the time goes. It reports only.
"""

import asyncio
import statistics
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench import machine, report
from support.controllers import Node
from support.metadata import broker, topic_id
from tailrace.metadata.records import BrokerRegistrationChangeRecord, MetadataRecord, PartitionRecord, TopicRecord
from tailrace.metadata.replay import replay
from tailrace_controller.controller import Controller
from tailrace_controller.decide import brokers
from tailrace_controller.decide.controller_result import ControllerResult
from tailrace_controller.decide.election_counts import ElectionCounts
from tailrace_controller.decision import Decided, encoded
from tailrace_controller.metadata_log import projection

BROKERS = 3
PARTITIONS_OF_A_TOPIC = 100


def parse() -> Namespace:
    """The command line."""
    parser = ArgumentParser(prog="python -m bench.fencing", description="Measures fencing. Never fails.")
    parser.add_argument("--partitions", type=int, default=9000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--directory", type=Path, help="where the database is; default: the system's temporary one")
    parser.add_argument("--output", type=Path, default=report.DOCUMENT, help="the report to rewrite")
    return parser.parse_args()


def topics(partitions: int) -> Iterator[tuple[MetadataRecord, ...]]:
    """Topics whose partitions are led by each broker in turn."""
    for number, first in enumerate(range(0, partitions, PARTITIONS_OF_A_TOPIC)):
        rows: list[MetadataRecord] = [TopicRecord(f"topic-{number}", topic_id(number))]
        for index in range(min(PARTITIONS_OF_A_TOPIC, partitions - first)):
            replicas = tuple((first + index + step) % BROKERS for step in range(BROKERS))
            rows.append(PartitionRecord(index, topic_id(number), replicas, replicas, replicas[0]))
        yield tuple(rows)


async def write(controller: Controller, records: tuple[MetadataRecord, ...]) -> None:
    """Puts records into the log, whatever they say."""
    await controller.run(lambda image: ControllerResult(None, records))


async def fill(controller: Controller, partitions: int) -> None:
    """Three live brokers and their partitions, as records that the controller writes."""
    live = [record for number in range(BROKERS) for record in broker(number, 10 + number)]
    for records in ((*live,), *topics(partitions)):
        await write(controller, records)


def steps(controller: Controller) -> dict[str, float]:
    """CPU ms of what happens between the proof and the database, the quickest of some."""
    image, config = controller.image, controller.config
    found: dict[str, float] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        spent = []
        for _ in range(5):
            began = time.process_time()
            result = work()
            spent.append((time.process_time() - began) * 1000)
        found[name] = min(spent)
        return result

    records = timed("decide", lambda: brokers.expire(image, 0, 10, config)).records
    offset = image.offset + len(records)
    after = timed("new image", lambda: replay(image, records, offset, controller.epoch))
    made = Decided(None, records, image, after, ElectionCounts(), [])
    timed("encode the records and their batch", lambda: encoded([made], controller.epoch, 1))
    timed("SQL projection", lambda: list(projection.changes(records, image, after, config)))
    return found


class Round(NamedTuple):
    """Milliseconds until the new leaders are published and until all is, and CPU until each."""

    leaders: float
    everything: float
    leaders_cpu: float
    everything_cpu: float


async def fence(controller: Controller, number: int) -> Round:
    """Fences a live broker as the watch does, and unfences it."""
    epoch, config = controller.image.brokers[number].broker_epoch, controller.config
    clocks = [(time.perf_counter(), time.process_time())]
    await controller.run_in_thread(lambda image: brokers.hand_over(image, number, epoch, config), behind=False)
    clocks.append((time.perf_counter(), time.process_time()))
    await controller.run_in_thread(lambda image: brokers.expire(image, number, epoch, config))
    clocks.append((time.perf_counter(), time.process_time()))
    (began, cpu), (moved, moved_cpu), (over, over_cpu) = clocks
    await restore(controller, number, epoch)
    return Round(*(ms * 1000 for ms in (moved - began, over - began, moved_cpu - cpu, over_cpu - cpu)))


async def restore(controller: Controller, number: int, epoch: int) -> None:
    """Everything is as it was: the broker is live, in sync everywhere, and leads its third."""
    back: list[MetadataRecord] = [BrokerRegistrationChangeRecord(number, epoch, fenced=-1)]
    for topic in controller.image.topics.values():
        for index, old in enumerate(topic.partitions):
            epochs = (old.leader_epoch, old.partition_epoch + 1)
            back.append(PartitionRecord(index, topic.topic_id, old.replicas, old.replicas, old.replicas[0], *epochs))
    await write(controller, tuple(back))


async def measure(options: Namespace, folder: Path) -> str:
    """The table."""
    async with Node(folder).controller() as role:
        controller = role.controller
        controller.snapshots.records_between = (
            1 << 60
        )  # the snapshot comes after the answer, and would run into the next round
        await fill(controller, options.partitions)
        parts = steps(controller)
        rounds = [await fence(controller, number % BROKERS) for number in range(options.rounds)]
    lines = [f"| fencing a broker of {options.partitions:,} partitions, {BROKERS} brokers | ms |", "|---|--:|"]
    lines += [f"| {name}, CPU | {spent:.0f} |" for name, spent in parts.items()]
    named = ("until it leads nothing", "until it is fenced and out of every ISR")
    for name, clock, cpu in zip(named, ("leaders", "everything"), ("leaders_cpu", "everything_cpu"), strict=True):
        spent = [getattr(row, clock) for row in rounds]
        lines.append(
            f"| {name}, CPU, median of {options.rounds} | {statistics.median(getattr(r, cpu) for r in rounds):.0f} |"
        )
        lines.append(f"| {name}, on the clock, median | {statistics.median(spent):.0f} |")
        lines.append(f"| {name}, on the clock, quickest | {min(spent):.0f} |")
    return "\n".join(lines)


def main() -> None:
    """Rewrites the section `fencing` of docs/benchmarks.md, or of the file named."""
    options = parse()
    with tempfile.TemporaryDirectory(prefix="tailrace-fencing-", dir=options.directory) as folder:
        text = asyncio.run(measure(options, Path(folder)))
    print(text)
    command = "Command: `PYTHONPATH=tests python -m bench.fencing`."
    report.write_section("fencing", "\n".join([*machine.describe(kafka=False), command, "", text]), options.output)


if __name__ == "__main__":
    main()
