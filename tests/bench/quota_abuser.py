"""`PYTHONPATH=tests python -m bench.quota_abuser`: what a client that is held back all the time takes from others.

The p99 of another client says little on a machine that has other work (bench.quotas shows the noise). What the held
client takes from others is time of the processes that serve them all, and process time can be measured on any machine:
all roles idle, with 16 connections that want all and are held to a rate, and with the same requests at the same rate
from a client without a quota, by turns. Writes the section of docs/quotas.md. Never fails.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from bench import machine
from bench.pairs import median_range
from bench.quiet import process_seconds
from bench.quota_latency import latencies
from bench.quotas import CLIENT, DOCUMENT, RATE, SIZE_BYTES, Passed, Target, spread, tailrace
from bench.report import say
from bench.section import Section
from integration.quota.load import CLOCK, alter_quotas

SECTION = Section("quota-abuser", "bench.quota_abuser", DOCUMENT, kafka=False)
CONNECTIONS = 16
SETTLE_MS = 1500.0


async def cpu_ms(pids: Sequence[int], seconds: float) -> float:
    """CPU milliseconds a second of all processes together."""
    before = sum(map(process_seconds, pids))
    await CLOCK.sleep(seconds * 1000)
    return (sum(map(process_seconds, pids)) - before) * 1000 / seconds


async def held(target: Target, pids: Sequence[int], seconds: float) -> tuple[float, float]:
    """CPU ms a second, and requests a second."""
    passed = Passed(CLOCK.monotonic_ms(), [])
    async with spread(target, CONNECTIONS, passed):
        await CLOCK.sleep(SETTLE_MS)
        begun_ms = CLOCK.monotonic_ms() - passed.began_ms
        spent = await cpu_ms(pids, seconds)
        bytes_passed = passed.between(begun_ms, CLOCK.monotonic_ms() - passed.began_ms)
    return spent, bytes_passed / SIZE_BYTES / seconds


async def obedient(target: Target, pids: Sequence[int], seconds: float, requests: float) -> float:
    """The same of a client without a quota that sends so many requests a second by itself."""
    pause_ms = CONNECTIONS * 1000 / requests
    load = asyncio.create_task(
        latencies(target.spots[0], CONNECTIONS, SIZE_BYTES, pause_ms, seconds + 2 * SETTLE_MS / 1000)
    )
    await CLOCK.sleep(SETTLE_MS)
    spent = await cpu_ms(pids, seconds)
    await load
    return spent


async def measure(target: Target, pids: Sequence[int], turns: int, seconds: float) -> list[str]:
    """The lines of the table."""
    await alter_quotas(target.address, {"client-id": CLIENT}, producer_byte_rate=RATE)
    found: dict[str, list[float]] = {"no client": [], "held": [], "obedient": []}
    requests = RATE / SIZE_BYTES
    for _ in range(turns):
        found["no client"].append(await cpu_ms(pids, seconds))
        spent, requests = await held(target, pids, seconds)
        found["held"].append(spent)
        found["obedient"].append(await obedient(target, pids, seconds, requests))
    names = {
        "no client": "no client",
        "held": f"{CONNECTIONS} connections that want all, held to {requests:.0f} requests of {SIZE_BYTES} B a second",
        "obedient": "as many requests from a client without a quota",
    }
    lines = ["| CPU of all processes, in parts of one core | median | range |", "|---|--:|--:|"]
    for kind, name in names.items():
        low, high = median_range(found[kind])
        lines.append(f"| {name} | {statistics.median(found[kind]) / 1000:.1%} | {low / 1000:.1%}-{high / 1000:.1%} |")
    return lines


def main(arguments: list[str]) -> None:
    """Measures, and rewrites the section."""
    parser = SECTION.parser("A client held back all the time.")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measurement")
    parser.add_argument("--turns", type=int, default=12, help="of three measurements each")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = machine.fresh_folder(stack)
        target = tailrace(folder, stack)
        pids = [int(file.read_text()) for file in sorted((folder / "tailrace" / "run").glob("*-*.pid"))]
        lines = asyncio.run(measure(target, pids, options.turns, options.seconds))
    say("\n".join(lines))
    SECTION.write(lines, arguments, options.output)


if __name__ == "__main__":
    main(sys.argv[1:])
