"""`PYTHONPATH=tests python -m bench.quotas`: how exact a byte rate is, beside Apache Kafka on the same load.

Two gateways with one broker, and two brokers of Apache Kafka with half of the partitions each. Raw clients produce as
fast as they are let and ignore throttle_time_ms. Bytes over seconds are compared with the quota, so a slow machine
changes little. Writes the section of docs/quotas.md. Never fails.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from bench import machine
from bench.failover import percentile
from bench.pairs import median_text
from bench.quota_latency import TIMEOUT_MS, VERSION, latencies, request_of
from bench.report import say
from bench.section import Section
from integration.quota.load import CLOCK, Answered, alter_quotas
from support import kafka_peer
from support.kafka_nodes import KafkaNodes
from support.ports import HOST
from tailrace.net.address import Address
from tailrace.net.client import Client
from tailrace.testing import Cluster

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "quotas.md"
SECTION = Section("quotas", "bench.quotas", DOCUMENT)
CLIENT = "limited"
RATE = 262_144.0
SIZE_BYTES = 4096
WINDOW_MS = 10_000.0
STEP_MS = 100.0
MOVE_MS = 3000.0
NEAR = 0.1  # of the new rate: where a changed quota has taken hold
HEADER = (
    "| load | Tailrace: first 10 s | least later | most later | Kafka: first 10 s | least later | most later |",
    "|---|--:|--:|--:|--:|--:|--:|",
)
FAIR_CONNECTIONS, FAIR_BYTES, FAIR_PAUSE_MS, FAIR_SECONDS = 4, 1024, 20.0, 2.0


@dataclass(frozen=True)
class Target:
    """Where connections go: at Kafka a partition's leader; each with the topic that has its partition 0 there."""

    name: str
    spots: Sequence[tuple[Address, str]]

    @property
    def address(self) -> Address:
        return self.spots[0][0]


@dataclass
class Passed:
    """What was answered to all of a client's connections, since the first was opened."""

    began_ms: float
    parts: list[Answered]

    def between(self, begin_ms: float, end_ms: float) -> float:
        """Bytes, by milliseconds since the begin."""
        return sum(
            size for part in self.parts for at_ms, size in part.bytes_at if begin_ms <= at_ms - self.began_ms < end_ms
        )

    def windows(self, begin_ms: float, end_ms: float, length_ms: float = WINDOW_MS) -> list[float]:
        """Bytes a second in every window of that length."""
        starts = [begin_ms + STEP_MS * n for n in range(int((end_ms - begin_ms - length_ms) / STEP_MS) + 1)]
        return [self.between(start, start + length_ms) * 1000 / length_ms for start in starts]


@asynccontextmanager
async def spread(target: Target, connections: int, passed: Passed) -> AsyncIterator[None]:
    """Connections at the target's spots in turn; in the end each takes its last answer, so that all is counted."""
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for at in range(connections):
            address, topic = target.spots[at % len(target.spots)]
            passed.parts.append(Answered())
            group.create_task(produce_until(stop, address, topic, passed.parts[-1]))
        try:
            yield
        finally:
            stop.set()


async def produce_until(stop: asyncio.Event, address: Address, topic: str, answered: Answered) -> None:
    client, request = Client(address, CLIENT), request_of(topic, SIZE_BYTES)
    try:
        while not stop.is_set():
            answer = await client.ask(request, timeout_ms=TIMEOUT_MS, version=VERSION)
            answered.add(SIZE_BYTES, answer.throttle_time_ms)
    finally:
        await client.close()


async def steady(target: Target, connections: int, seconds: float, passed: Passed) -> None:
    async with spread(target, connections, passed):
        await CLOCK.sleep(seconds * 1000)


async def moving(target: Target, connections: int, seconds: float, passed: Passed) -> None:
    """All connections are closed and opened elsewhere."""
    for turn in range(math.ceil(seconds * 1000 / MOVE_MS)):
        spot = Target(target.name, [target.spots[turn % len(target.spots)]])
        async with spread(spot, connections, passed):
            await CLOCK.sleep(MOVE_MS)


Load = Callable[[Target, int, float, Passed], Awaitable[None]]
CELLS: tuple[tuple[str, Load, int], ...] = (
    ("1 connection", steady, 1),
    ("8 connections", steady, 8),
    ("64 connections", steady, 64),
    ("8 connections, closed and opened elsewhere every 3 s", moving, 8),
)


async def measure(target: Target, load: Load, connections: int, seconds: float) -> list[str]:
    """Three cells: the first 10 s, then the least and the most of all windows from the first second on, of the rate."""
    await alter_quotas(target.address, {"client-id": CLIENT}, producer_byte_rate=RATE)
    await CLOCK.sleep(500)
    passed = Passed(CLOCK.monotonic_ms(), [])
    await load(target, connections, seconds, passed)
    later = passed.windows(1000, CLOCK.monotonic_ms() - passed.began_ms)
    first = passed.between(0, WINDOW_MS) * 1000 / WINDOW_MS
    return [f"{one / RATE:.0%}" for one in (first, min(later), max(later))]


async def convergence_s(target: Target, factor: float) -> float:
    """Seconds from a change of the quota until each following second is within a tenth of the new rate."""
    await alter_quotas(target.address, {"client-id": CLIENT}, producer_byte_rate=RATE)
    passed = Passed(CLOCK.monotonic_ms(), [])
    async with spread(target, 8, passed):
        await CLOCK.sleep(6000)
        await alter_quotas(target.address, {"client-id": CLIENT}, producer_byte_rate=factor * RATE)
        changed_ms = CLOCK.monotonic_ms() - passed.began_ms
        await CLOCK.sleep(15_000)
    expected = factor * RATE * (len(target.spots) if target.name == "kafka" else 1)
    # Seconds of a few large steps scatter: three at a time show the trend.
    windows = passed.windows(changed_ms, changed_ms + 15_000, 3000)
    apart = [at for at, rate in enumerate(windows) if abs(rate - expected) > NEAR * expected]
    return (apart[-1] + 1) * STEP_MS / 1000 if apart else 0.0


async def well_behaved_ms(target: Target, seconds: float) -> list[float]:
    """Latencies of an unlimited client that sends a small request every 20 ms on each of four connections."""
    return await latencies(target.spots[0], FAIR_CONNECTIONS, FAIR_BYTES, FAIR_PAUSE_MS, seconds)


@dataclass
class Beside:
    """A well-behaved client's p99 in ms by turns: alone, beside an abuser, alone."""

    alone_ms: list[float] = field(default_factory=list)
    beside_ms: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """Each turn beside the abuser to the mean of its neighbours: what drifts slowly cancels out."""
        neighbours = zip(self.alone_ms, self.alone_ms[1:], strict=False)
        return [2 * one / (a + b) for one, (a, b) in zip(self.beside_ms, neighbours, strict=True)]

    @property
    def noise(self) -> list[float]:
        """Each turn alone to the one before, where the truth is 1."""
        return [b / a for a, b in zip(self.alone_ms, self.alone_ms[1:], strict=False)]

    def __str__(self) -> str:
        told = [median_text(ratios, 2) for ratios in (self.ratios, self.noise)]
        alone, beside = (statistics.median(one) for one in (self.alone_ms, self.beside_ms))
        return f"{alone:.1f} → {beside:.1f} ms: {told[0]}; noise {told[1]}"


async def beside_an_abuser(target: Target, turns: int, seconds: float) -> Beside:
    """Beside 16 connections that want all and may have RATE."""
    found = Beside()
    await alter_quotas(target.address, {"client-id": CLIENT}, producer_byte_rate=RATE)
    found.alone_ms.append(percentile(await well_behaved_ms(target, seconds), 0.99))
    for _ in range(turns):
        passed = Passed(CLOCK.monotonic_ms(), [])
        async with spread(target, 16, passed):
            await CLOCK.sleep(500)
            found.beside_ms.append(percentile(await well_behaved_ms(target, seconds), 0.99))
        found.alone_ms.append(percentile(await well_behaved_ms(target, seconds), 0.99))
    return found


def tailrace(folder: Path, stack: ExitStack) -> Target:
    """One broker behind two gateways; the kernel spreads connections between these."""
    cluster = Cluster(port=0, data_dir=folder / "tailrace", arguments=["--gateways", "2"])
    stack.callback(cluster.stop)
    cluster.start()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("load-0", 1, 1)])["load-0"].result(30)
    spot = (Address.parse(cluster.bootstrap), "load-0")
    return Target("tailrace", [spot, spot])


def kafka(folder: Path, stack: ExitStack) -> Target:
    """Two brokers, a topic at each."""
    nodes = KafkaNodes(folder / "kafka", 2)
    stack.callback(nodes.stop)
    nodes.start()
    admin = AdminClient({"bootstrap.servers": f"{HOST}:{nodes.port}"})
    topics = [NewTopic(f"load-{node}", 1, replica_assignment=[[node]]) for node in range(2)]
    for created in admin.create_topics(topics).values():
        created.result(30)
    return Target("kafka", [(Address(HOST, nodes.port + node), f"load-{node}") for node in range(2)])


async def table(targets: Sequence[Target], seconds: float, turns: int) -> list[str]:
    """All lines of the section."""
    lines = list(HEADER)
    for name, load, connections in CELLS:
        cells: list[str] = []
        for target in targets:
            cells += await measure(target, load, connections, seconds)
        lines.append(f"| {name} | {' | '.join(cells)} |")
        say(lines[-1])
    lines += ["", "| | Tailrace | Kafka |", "|---|--:|--:|"]
    for name, factor in (("quota halved", 0.5), ("quota doubled", 2.0)):
        found = [await convergence_s(target, factor) for target in targets]
        lines.append(
            f"| {name}: until the rate is within a tenth of the new one | {found[0]:.1f} s | {found[1]:.1f} s |"
        )
        say(lines[-1])
    told = [str(await beside_an_abuser(target, turns, FAIR_SECONDS)) for target in targets]
    lines.append(f"| p99 of a client without a quota, alone → beside 16 limited connections | {told[0]} | {told[1]} |")
    say(lines[-1])
    return lines


def main(arguments: list[str]) -> None:
    """Measures, and rewrites the section."""
    parser = SECTION.parser("Measures quotas.")
    parser.add_argument("--seconds", type=float, default=24.0, help="of each load, at least 12")
    parser.add_argument("--turns", type=int, default=20, help="of the client beside the limited one")
    options = parser.parse_args(arguments)
    if problem := kafka_peer.missing():
        say(f"nothing to compare with: {problem}")
        return
    with ExitStack() as stack:
        folder = machine.fresh_folder(stack)
        lines = asyncio.run(
            table([tailrace(folder, stack), kafka(folder, stack)], max(12.0, options.seconds), options.turns)
        )
    SECTION.write(lines, arguments, options.output)


if __name__ == "__main__":
    main(sys.argv[1:])
