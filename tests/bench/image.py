"""`python -m bench.image [ROUNDS]`: size, start and memory of the image, beside Apache Kafka's on the same base.

Needs a Docker engine and the images (`python -m support.docker_engine up`), and Kafka's jars (`./test compat`).
"""

from __future__ import annotations

import json
import os
import secrets
import statistics
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress

from kafka import KafkaProducer

from support import docker_engine, kafka_peer
from support.docker_engine import docker
from support.ports import free_ports
from support.waiting import until
from tailrace.testing import admin

KAFKA = "local/tailrace-kafka:1"
RECORDS, VALUE = 20_000, bytes(1024)
MIB = 1 << 20


def size_bytes(image: str) -> int:
    """Of all its layers, unpacked."""
    return int(docker("image", "inspect", "-f", "{{.Size}}", image))


@contextmanager
def running(image: str, port: int) -> Iterator[str]:
    """One container with one broker; its name."""
    name = f"tailrace-bench-{secrets.token_hex(4)}"
    is_kafka = image == KAFKA
    where = ("-p", f"127.0.0.1:{port}:{port}", "-e", f"PORT={port}")
    command = () if is_kafka else ("up", "--port", str(port), "--advertise", f"127.0.0.1:{port}")
    docker("run", "-d", "--name", name, *where, image, *command)
    try:
        yield name
    finally:
        docker("rm", "-f", "-v", name)


def wait_for_a_topic(port: int) -> None:
    """Returns when a topic could be created and its partition has a leader."""

    def is_created() -> bool:
        with suppress(OSError, TimeoutError):
            admin.create_topic(f"127.0.0.1:{port}", "t", 1, 1, {})
            return True
        return False

    until(is_created, "a topic could be created", 240)


def pids(name: str) -> list[str]:
    """Of all processes in it, as this machine numbers them."""
    return docker("top", name, "-o", "pid").split()[1:]


def cpu_seconds(name: str) -> float:
    """What its processes and the children that they waited for have used of the processors."""
    ticks = 0
    for pid in pids(name):
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            ticks += sum(map(int, stat.read().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_bytes(name: str) -> int:
    """Of all processes in it, without the page cache: what is theirs alone, and their shares of the rest."""
    total = 0
    for pid in pids(name):
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss_Anon:"))
    return total * 1024


def measure(image: str) -> dict[str, float]:
    """One round: seconds from `docker run` until a topic has a leader, and MiB then and after records were written."""
    port = free_ports(1)
    began = time.monotonic()
    with running(image, port) as name:
        wait_for_a_topic(port)
        seconds, used = time.monotonic() - began, cpu_seconds(name)
        started = memory_bytes(name)
        with closing(KafkaProducer(bootstrap_servers=f"127.0.0.1:{port}", acks="all")) as producer:
            for future in [producer.send("t", VALUE) for _ in range(RECORDS)]:
                future.get(120)
        loaded = memory_bytes(name)
    return {
        "start s": seconds,
        "start CPU s": used,
        "MiB after the start": started / MIB,
        "MiB after the load": loaded / MIB,
    }


def main(arguments: Sequence[str]) -> None:
    """Prints a table of medians."""
    parser = ArgumentParser(prog="python -m bench.image", description="Prints size, start and memory of the image.")
    parser.add_argument("rounds", type=int, nargs="?", default=3, help="measurements; the median counts")
    count = parser.parse_args(arguments).rounds
    docker("build", "-q", "-t", KAFKA, "--build-arg", f"BASE={docker_engine.BASE}",
           "-f", "tests/support/images/kafka/Dockerfile", str(kafka_peer.libs()))  # fmt: skip
    base = size_bytes(docker_engine.BASE)
    rows: dict[str, dict[str, float]] = {}
    for name, image in (("Tailrace", docker_engine.TAILRACE), ("Apache Kafka", KAFKA)):
        size = size_bytes(image)
        rounds = [measure(image) for _ in range(count)]
        medians = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
        rows[name] = {"image MiB": size / MIB, "without the base": (size - base) / MIB, **medians}
    columns = list(next(iter(rows.values())))
    print("| | " + " | ".join(columns) + " |")
    print("|---|" + "--:|" * len(columns))
    for name, row in rows.items():
        print(f"| {name} | " + " | ".join(f"{row[column]:,.1f}" for column in columns) + " |")
    print(json.dumps(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
