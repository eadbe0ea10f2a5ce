"""`python -m bench.tls`: server CPU of one request over TLS, beside the same without it, by turns in one run.

Both clusters relay (gateway.handover=false), as a gateway must with TLS. The CPU is that of the gateway and the broker,
from /proc; the client, in Python, is not counted.
"""

import argparse
import asyncio
import os
import ssl
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.report import say
from integration.quota.load import CLOCK, fetching, producing
from support.certificates import Authority, listener_settings
from support.tls_client import client_tls
from tailrace.net.address import Address
from tailrace.net.client import Client
from tailrace.testing import Cluster
from tailrace.wire.messages import CreateTopicsRequest

WINDOW_MS = 1200.0
CONNECTIONS = 4
KINDS = {"produce 1 KiB": 1024, "produce 16 KiB": 16_384, "produce 900 KiB": 921_600, "fetch 1 MiB": 0}
_TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")


def cpu_us(cluster: Cluster) -> float:
    """What gateway and broker have taken since they began."""
    taken = 0.0
    for role in ("gateway", "broker"):
        fields = Path(f"/proc/{cluster.process_id(role)}/stat").read_text().rpartition(")")[2].split()
        taken += (int(fields[11]) + int(fields[12])) * _TICK_US
    return taken


async def run(cluster: Cluster, kind: str, tls: ssl.SSLContext | None) -> float:
    """CPU microseconds of one request."""
    address, size = Address.parse(cluster.bootstrap), KINDS[kind]
    if size:
        load = producing(address, "bench", kind[:7] + str(size), connections=CONNECTIONS, size_bytes=size, tls=tls)
    else:
        load = fetching(address, "bench", "produce921600", connections=CONNECTIONS, tls=tls)
    async with load as answered:
        await CLOCK.sleep(200)
        count, before = len(answered.bytes_at), cpu_us(cluster)
        await CLOCK.sleep(WINDOW_MS)
        return (cpu_us(cluster) - before) / max(1, len(answered.bytes_at) - count)


async def create(cluster: Cluster, tls: ssl.SSLContext | None) -> None:
    topic = CreateTopicsRequest.CreatableTopic
    rows = [
        topic(name=f"produce{size}", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for size in KINDS.values()
    ]
    client = Client(Address.parse(cluster.bootstrap), "bench", tls=tls)
    await client.ask(CreateTopicsRequest(topics=rows, timeout_ms=30_000), timeout_ms=30_000, version=5)
    await client.close()


async def measured(clusters: dict[str, tuple[Cluster, ssl.SSLContext | None]], turns: int) -> None:
    for cluster, tls in clusters.values():
        await create(cluster, tls)
    say("| | plain, CPU µs/request | TLS | ratio | range of the ratios |\n|---|--:|--:|--:|--:|")
    for kind in KINDS:
        found: dict[str, list[float]] = {name: [] for name in clusters}
        for _ in range(turns):
            for name, (cluster, tls) in clusters.items():
                found[name].append(await run(cluster, kind, tls))
        plain, encrypted = found["plain"], found["TLS"]
        ratios = sorted(b / a for a, b in zip(plain, encrypted, strict=True))
        middle = statistics.median
        figures = f"{middle(plain):.0f} | {middle(encrypted):.0f} | {middle(ratios):.2f}"
        say(f"| {kind} | {figures} | {ratios[0]:.2f}-{ratios[-1]:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.tls", description=__doc__)
    parser.add_argument("--turns", type=int, default=7, help="runs of each cell; default: 7")
    turns = parser.parse_args().turns
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tailrace-bench-")))
        authority = Authority(folder)
        server = authority.sign("server", "/CN=bench")
        relayed = {"gateway.handover": "false"}
        encrypted = listener_settings(server)
        plain = stack.enter_context(Cluster(settings=relayed))
        over_tls = stack.enter_context(Cluster(settings=relayed | encrypted))
        asyncio.run(measured({"plain": (plain, None), "TLS": (over_tls, client_tls(authority.certificate))}, turns))


if __name__ == "__main__":
    main()
