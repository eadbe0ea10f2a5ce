"""Three stages over three topics, each stopped and restarted by itself: what comes out is right to the cent."""

from __future__ import annotations

import json
import random
from argparse import Namespace
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from support.spark_cluster import Record, SparkCluster
from support.spark_frames import record, records
from tailrace_spark import dead_letter
from tailrace_spark.job import JobRun
from tailrace_spark.stream import aggregate_job, enrich_job, frames, validate_job

BEGAN = datetime(2026, 11, 21, 15, tzinfo=UTC)
COUNTRIES = ("DE", "FR", "IT")
CUSTOMERS = {f"c{number}": COUNTRIES[number % 3] for number in range(12)}


def order(number: int, at: datetime, customer: str, quantity: int = 1, price: float = 2.5) -> dict[str, Any]:
    row = {"id": f"o{number}", "time": at.isoformat(), "customer": customer, "product": "p", "quantity": quantity}
    return {**row, "price": price}


def test_a_compacted_topic_is_a_table_of_its_newest_records(spark: SparkSession) -> None:
    rows = [
        record(0, '{"country": "DE", "tier": "gold"}', key="a"),
        record(1, '{"country": "FR", "tier": "gold"}', key="b"),
        record(2, '{"country": "IT", "tier": "iron"}', key="a"),
        record(3, None, key="b"),
        record(4, "not JSON", key="c"),
        record(5, "no key"),
    ]
    assert [tuple(row) for row in frames.customers(records(spark, rows)).collect()] == [("a", "IT", "iron")]


class Chain:
    """Runs the stages over what is there."""

    def __init__(self, spark: SparkSession, cluster: SparkCluster, folder: Path) -> None:
        self.spark, self.cluster, self.folder = spark, cluster, folder
        names = ("orders", "valid", "enriched", "revenue", "customers")
        self.topics = {name: cluster.create(name, 2) for name in names}
        for name in names[:3]:
            cluster.create_exactly(self.topics[name] + dead_letter.SUFFIX)

    def run(self, job: Any, topic: str, to: str) -> None:
        options = Namespace(
            bootstrap=self.cluster.bootstrap,
            topic=self.topics[topic],
            to=self.topics[to],
            table=self.topics["customers"],
            dead_letter=None,
            checkpoint=str(self.folder / topic),
            window=60,
            lateness=60,
            trigger="now",
            max_offsets_per_trigger=10_000,
            kafka_option=[],
        )
        job.run(JobRun(self.spark, options, print))

    def validate(self) -> None:
        self.run(validate_job, "orders", "valid")

    def enrich(self) -> None:
        self.run(enrich_job, "valid", "enriched")

    def aggregate(self) -> None:
        self.run(aggregate_job, "enriched", "revenue")

    def forget_first_commit(self, topic: str) -> None:
        """The driver died after the first batch and before the checkpoint had it, or the empty batch after it."""
        for path in (self.folder / topic / "commits").iterdir():
            path.unlink()
        for path in (self.folder / topic / "offsets").iterdir():
            if path.name not in ("0", ".0.crc"):
                path.unlink()

    def reasons(self, topic: str) -> Counter[str]:
        letters = self.cluster.read(self.topics[topic] + dead_letter.SUFFIX)
        return Counter(dict(letter.headers)["dead-letter.reason"].decode() for letter in letters)


def test_the_stages_restarted_one_by_one_lose_and_repeat_nothing(
    spark: SparkSession, cluster: SparkCluster, tmp_path: Path
) -> None:
    chain = Chain(spark, cluster, tmp_path)
    chance = random.Random(11)
    expected: dict[tuple[str, str], list[float]] = defaultdict(list)
    table = [Record(json.dumps({"country": "XX"}).encode(), key=b"c0")]
    table += [Record(json.dumps({"country": c, "tier": "gold"}).encode(), key=k.encode()) for k, c in CUSTOMERS.items()]
    cluster.produce(chain.topics["customers"], table)

    def produce(first: int, count: int, minutes: tuple[int, int]) -> None:
        rows = []
        for number in range(first, first + count):
            at = BEGAN + timedelta(seconds=chance.uniform(minutes[0] * 60, minutes[1] * 60 - 0.001))
            row = order(number, at, chance.choice(tuple(CUSTOMERS)), chance.randrange(1, 5), chance.choice((2.5, 4.25)))
            expected[CUSTOMERS[row["customer"]], f"{at:%H:%M}"].append(row["quantity"] * row["price"])
            rows.append(json.dumps(row).encode())
        cluster.produce(chain.topics["orders"], rows)

    produce(0, 120, (0, 3))
    broken = [b"", b"nonsense", json.dumps(order(1, BEGAN, "c1", quantity=0)).encode(), b'{"id": "x"}']
    cluster.produce(chain.topics["orders"], [*broken, json.dumps(order(2, BEGAN, "stranger")).encode()])
    chain.validate()
    chain.forget_first_commit("orders")
    produce(120, 120, (3, 6))
    chain.validate()  # writes the first batch again: its records are in `valid` twice
    assert len(cluster.read(chain.topics["valid"])) == 121 + 241
    chain.enrich()
    chain.forget_first_commit("valid")
    late = json.dumps(order(999, BEGAN, "c1")).encode()
    for stage in (chain.enrich, chain.aggregate):
        stage()
    cluster.produce(chain.topics["orders"], [late])
    for stage in (chain.validate, chain.enrich, chain.aggregate):
        stage()

    found: dict[bytes, dict[str, Any]] = {}
    for each in cluster.read(chain.topics["revenue"]):
        row = json.loads(each.value)
        assert found.setdefault(each.key, row) == row
    revenue = {(row["country"], row["start"][11:16]): (row["orders"], row["revenue"]) for row in found.values()}
    assert revenue == {key: (len(sums), sum(sums)) for key, sums in expected.items() if key[1] < "15:04"}
    assert set(chain.reasons("orders")) == {"empty", "not JSON", "quantity is not above 0", "no time"}
    assert set(chain.reasons("valid")) == {"no such customer"}
    assert chain.reasons("enriched") == {"too late": 1}
