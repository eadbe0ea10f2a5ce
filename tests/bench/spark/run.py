"""The measurement: each job against each server in turn, several rounds, medians into docs/benchmarks.md.

A source job reads a filled topic into nowhere (Spark's noop sink, all columns); a sink job writes generated records
with keys. Both are Spark batches of the same plan as a streaming query's. One session serves all; servers take turns.
"""

import statistics
import time
import uuid
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench import machine, report, servers
from support import kafka_peer, spark_jars

AIM = 0.9
PARTITIONS = 4
JOBS = (("source", 100), ("source", 1000), ("sink", 100), ("sink", 1000))
SETTINGS = {"log.retention.ms": "-1", "log.retention.bytes": "-1"}


def parse(arguments: list[str]) -> Namespace:
    """The command line."""
    parser = ArgumentParser(prog="python -m bench.spark", description="Measures the Spark connector. Never fails.")
    parser.add_argument("--megabytes", type=float, default=200.0, help="payload of one measurement")
    parser.add_argument("--rounds", type=int, default=5, help="measurements per job and server; the median counts")
    parser.add_argument("--warm-up", type=int, default=2, help="rounds before the first that counts")
    parser.add_argument("--job", choices=("source", "sink"), help="leave the other out")
    parser.add_argument("--size", type=int, choices=sorted({size for _, size in JOBS}), help="leave the others out")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a config for Tailrace")
    parser.add_argument("--section", default="spark", help="the part of the report to rewrite")
    parser.add_argument("--output", type=Path, default=report.DOCUMENT, help="the report to rewrite")
    return parser.parse_args(arguments)


class Bench:
    """One Spark session, the servers' addresses, and records/s by (job, size, server)."""

    def __init__(self, spark: Any, options: Namespace) -> None:
        self.spark = spark
        self.options = options
        self.addresses: dict[str, str] = {}
        self.rates: dict[tuple[str, int, str], list[float]] = {}

    def records(self, size: int) -> int:
        """How many records of that size one measurement moves."""
        return max(PARTITIONS, int(self.options.megabytes * 1e6 / size))

    def generated(self, size: int) -> Any:
        """Records with a key of 8 bytes and a value of the size, in as many tasks as the topic has partitions."""
        rows = self.spark.range(0, self.records(size), 1, PARTITIONS)
        value = f"rpad(concat(cast(id as string), ' ', sha2(cast(id as string), 256)), {size}, 'x')"
        return rows.selectExpr("lpad(cast(id as string), 8, '0') key", f"{value} value")

    def write(self, server: str, topic: str, size: int) -> None:
        """The sink."""
        writer = self.generated(size).write.format("kafka").option("topic", topic)
        writer.option("kafka.bootstrap.servers", self.addresses[server]).save()

    def read(self, server: str, topic: str) -> None:
        """The source."""
        reader = self.spark.read.format("kafka").option("subscribe", topic)
        frame = reader.option("kafka.bootstrap.servers", self.addresses[server]).load()
        frame.write.format("noop").mode("overwrite").save()

    def measure(self, job: str, size: int, server: str, topic: str) -> float:
        """Records/s of one run."""
        began = time.perf_counter()
        if job == "sink":
            self.write(server, topic, size)
        else:
            self.read(server, topic)
        return self.records(size) / (time.perf_counter() - began)

    def run(self, job: str, size: int) -> None:
        """All rounds of one job; the order of the servers alternates."""
        topics = {server: f"{job}-{size}-{uuid.uuid4().hex[:6]}" for server in self.addresses}
        for server, topic in topics.items():
            create(self.addresses[server], topic)
            if job == "source":
                self.write(server, topic, size)
        for number in range(self.options.warm_up + self.options.rounds):
            order = list(self.addresses) if number % 2 else list(self.addresses)[::-1]
            for server in order:
                rate = self.measure(job, size, server, topics[server])
                if number >= self.options.warm_up:
                    self.rates.setdefault((job, size, server), []).append(rate)
                print(f"{job} {size} B at {server}: {rate:,.0f} records/s", flush=True)
        for server, topic in topics.items():
            delete(self.addresses[server], topic)


def create(bootstrap: str, topic: str) -> None:
    """A topic without compression or replicas."""
    with admin(bootstrap) as client:
        client.create_topics({topic: {"num_partitions": PARTITIONS, "replication_factor": 1}})


def delete(bootstrap: str, topic: str) -> None:
    """Gives its memory back."""
    with admin(bootstrap) as client:
        client.delete_topics([topic])


@contextmanager
def admin(bootstrap: str) -> Iterator[Any]:
    """kafka-python's admin client, closed at the end."""
    from kafka import KafkaAdminClient

    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield client
    finally:
        client.close()


def table(bench: Bench) -> str:
    """The report's rows: medians, the multiple of Kafka, the spread."""
    lines = ["| | Kafka, records/s | Tailrace, records/s | x Kafka | aim | spread |", "|---|--:|--:|--:|--:|--:|"]
    for job, size in JOBS:
        found = {server: bench.rates.get((job, size, server), []) for server in ("kafka", "tailrace")}
        if not all(found.values()):
            continue
        medians = {server: statistics.median(rates) for server, rates in found.items()}
        spread = " / ".join(f"{(max(r) - min(r)) / statistics.median(r):.0%}" for r in found.values())
        times = medians["tailrace"] / medians["kafka"]
        rates = f"{medians['kafka']:,.0f} | {medians['tailrace']:,.0f}"
        lines.append(f"| {job}, {size} B | {rates} | {times:.2f} | {AIM} | {spread} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Measures and rewrites the section `spark` of the report."""
    from tailrace_spark.session import open_session

    options = parse(arguments)
    if problem := kafka_peer.missing():
        print(f"nothing to measure beside: {problem}")
        return
    with ExitStack() as stack:
        folder = machine.fresh_folder(stack)
        settings = {"spark.ui.enabled": "false", "spark.driver.memory": "2g"}
        spark = open_session(
            "bench", master="local[2]", jars=spark_jars.libs(), settings=settings, log=folder / "spark.log"
        )
        stack.callback(spark.stop)
        bench = Bench(spark, options)
        peer = servers.Kafka(folder / "kafka", {**servers.SETTINGS, **SETTINGS})
        stack.callback(peer.stop)
        peer.start()
        settings = {**servers.SETTINGS, **SETTINGS, **dict(pair.split("=", 1) for pair in options.set)}
        cluster = servers.Tailrace(data_dir=folder / "tailrace", settings=settings, brokers=1)
        stack.enter_context(cluster)
        bench.addresses = {"kafka": peer.bootstrap, "tailrace": cluster.bootstrap}
        for job, size in JOBS:
            if options.job in (None, job) and options.size in (None, size):
                bench.run(job, size)
    command = " ".join(["PYTHONPATH=tests python -m bench.spark", *arguments])
    about = (
        f"Command: `{command}`: connector {spark_jars.VERSION}, PySpark local[2], {PARTITIONS} partitions, one broker, "
        f"{options.megabytes:g} MB a measurement, medians of {options.rounds} in turns; servers and Spark share the "
        "CPUs. Tailrace is addressed at its gateway."
    )
    report.write_section(options.section, "\n".join([*machine.describe(), about, "", table(bench)]), options.output)
