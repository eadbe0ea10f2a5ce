"""Suggestions: better than popularity on purchases of a known structure, and the topic has just the last night's."""

from __future__ import annotations

import json
import random
from argparse import Namespace
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from support.spark_cluster import SparkCluster
from support.spark_frames import frame
from support.table_readers import rows_for_all
from tailrace_spark import dead_letter
from tailrace_spark.job import JobRun
from tailrace_spark.suggestions import frames, job, lookup_job

BEGAN = datetime(2026, 10, 1, tzinfo=UTC)
TASTES, PRODUCTS, USERS, BOUGHT = 12, 20, 500, 9
MARGIN = 2.0  # docs/spark-suggestions.md states it


def purchases(seed: int) -> Iterator[tuple[str, str]]:
    """Everyone has two tastes; three purchases of four follow them, one is of what everybody buys.

    Within a taste some products sell more than others, as in any shop.
    """
    chance = random.Random(seed)
    weights = [1 / (rank + 1) for rank in range(PRODUCTS)]
    for user in range(USERS):
        tastes = chance.sample(range(TASTES), 2)
        for _ in range(BOUGHT):
            if chance.random() < 0.75:
                product = f"taste-{chance.choice(tastes)}-{chance.choices(range(PRODUCTS), weights)[0]}"
            else:
                product = f"everybody-{chance.choices(range(PRODUCTS), weights)[0]}"
            yield f"user-{user}", product


def pairs(spark: SparkSession, rows: Iterable[tuple[str, str]]) -> DataFrame:
    named = ({"user": user, "product": product} for user, product in rows)
    return frame(spark, named, "array<struct<user: string, product: string>>")


def test_held_out_purchases_are_found_twice_as_often_as_by_popularity(spark: SparkSession) -> None:
    baskets: dict[str, list[str]] = {}
    for user, product in purchases(seed=1):
        if product not in baskets.setdefault(user, []):
            baskets[user].append(product)
    held_out = [(user, basket[-1]) for user, basket in baskets.items() if not basket[-1].startswith("everybody")]
    seen = set(held_out)
    rows = [(user, each) for user, basket in baskets.items() for each in basket if (user, each) not in seen]
    owned, wanted = (pairs(spark, each).persist() for each in (rows, held_out))
    ours = frames.hit_rate(frames.suggest(owned, frames.similar(owned)), wanted)
    baseline = frames.hit_rate(frames.popular(owned), wanted)
    print(f"held out {len(held_out)}: {ours:.3f} by co-occurrence, {baseline:.3f} by popularity")
    assert ours >= MARGIN * baseline > 0


def event(user: str, product: str, number: int) -> bytes:
    at = BEGAN + timedelta(minutes=number)
    return json.dumps({"time": at.isoformat(), "user": user, "product": product}).encode()


def test_a_night_replaces_the_night_before(spark: SparkSession, cluster: SparkCluster, tmp_path: Path) -> None:
    topic = cluster.create("purchases", 2)
    to = cluster.create("suggestions", 2, {"cleanup.policy": "compact"})
    cluster.create_exactly(topic + dead_letter.SUFFIX)
    options = job.JOB.given(
        bootstrap=cluster.bootstrap, topic=topic, to=to, output=str(tmp_path / "scores"), most=5, least_together=2
    )
    said: list[str] = []

    def night() -> None:
        job.run(JobRun(spark, options, said.append))

    def lookup(product: str) -> list[str]:
        lines: list[str] = []
        lookup_job.run(JobRun(spark, Namespace(**vars(options), product=product), lines.append))
        return [line.split()[-1] for line in lines]

    bought = [("ann", "tea"), ("ann", "cup"), ("bob", "tea"), ("bob", "cup"), ("bob", "hat"), ("cid", "hat")]
    cluster.produce(topic, [event(*each, number) for number, each in enumerate(bought)])
    cluster.produce(topic, [b"{", event("ann", "tea", 0).replace(b'"user"', b'"who"')])
    night()
    assert lookup("tea") == ["cup"] and lookup("cup") == ["tea"]
    assert lookup("hat") == ["products."]  # "hat has no similar products."
    cluster.produce(topic, [event("cid", "tea", 20)])
    night()
    assert lookup("tea") == ["cup", "hat"]
    assert rows_for_all(spark, options.output) == 4, "tea with cup and hat, and back"
    assert said[0].endswith("2 dead letters (1 no user, 1 not JSON)") and said[1].endswith("no dead letters")
    assert len(cluster.read(topic + dead_letter.SUFFIX)) == 2
    cluster.delete_records(topic, cluster.end_offsets(topic, [0, 1]))
    night()
    assert lookup("tea") == ["products."]
    newest = {record.key: record.value for record in cluster.read(to)}
    assert newest == {b"tea": None, b"cup": None, b"hat": None}
    assert rows_for_all(spark, options.output) == 0
