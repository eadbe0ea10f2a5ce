"""Website activity: sessions, top pages and funnels; live and by night the same; nothing dropped silently."""

from __future__ import annotations

import datetime
import random
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from support.spark_cluster import Record, SparkCluster
from support.spark_frames import frame, plan_of
from support.table_readers import rows_for_all
from support.visits import GAP_MS, Visits, generate
from tailrace_spark import events
from tailrace_spark.activity import frames, live_job, nightly_job, report_job
from tailrace_spark.activity.options import needed
from tailrace_spark.activity.tables import Tables
from tailrace_spark.job import JobRun
from tailrace_spark.refusal import Refusal

DAY = datetime.date(2026, 3, 14)
MIDNIGHT_MS = int(datetime.datetime(2026, 3, 14, tzinfo=datetime.UTC).timestamp() * 1000)
LATE_MS = 300_000
MINUTE = 60
FUNNEL = ("views", "carts", "purchases")


def activities(spark: SparkSession, *rows: tuple[int, str, str, str]) -> DataFrame:
    """(minute, visitor, activity, page)."""
    made = (
        {"s": minute * MINUTE, "visitor": visitor, "page": page, "topic": topic, "offset": offset}
        for offset, (minute, visitor, topic, page) in enumerate(rows)
    )
    given = frame(spark, made, "array<struct<s: bigint, visitor: string, page: string, topic: string, offset: bigint>>")
    return given.selectExpr("timestamp_seconds(s) time", "visitor", "page", "topic", "0 partition", "offset")


def test_a_gap_ends_a_session(spark: SparkSession) -> None:
    rows = activities(
        spark, (29, "a", "views", "/"), (0, "a", "views", "/"), (59, "a", "views", "/"), (1, "b", "views", "/")
    )
    found = frames.sessions(rows, 30 * MINUTE).selectExpr("visitor", "unix_seconds(start) div 60 s", "size(steps) n")
    assert sorted(tuple(row) for row in found.collect()) == [("a", 0, 2), ("a", 59, 1), ("b", 1, 1)]


def test_open_sessions_wait_whole(spark: SparkSession) -> None:
    rows = activities(
        spark, (0, "a", "views", "/"), (40, "a", "views", "/"), (60, "a", "carts", ""), (35, "b", "views", "/")
    )
    whole = frames.sessions(rows, 30 * MINUTE)
    closed = frames.is_closed(30 * MINUTE, 70 * MINUTE * 1_000_000)
    assert sorted((r.visitor, len(r.steps)) for r in whole.where(closed).collect()) == [("a", 1), ("b", 1)]
    waiting = frames.still_open(rows, whole.where(~closed))
    assert sorted((r.visitor, r.topic) for r in waiting.collect()) == [("a", "carts"), ("a", "views")]


PATHS = (
    (("views",), 1),
    (("views", "search", "carts"), 2),
    (("carts", "views", "purchases"), 1),
    (("carts",), 0),
    (("views", "carts", "views", "carts", "purchases", "views"), 3),
)


def test_a_funnel_counts_steps_in_their_order(spark: SparkSession) -> None:
    """Each path in an hour of its own, by which they are counted."""
    rows = [
        (60 * hour + minute, "a", topic, "/")
        for hour, (path, _) in enumerate(PATHS)
        for minute, topic in enumerate(path)
    ]
    whole = frames.sessions(activities(spark, *rows), 30 * MINUTE)
    counts = frames.funnel_counts(whole, FUNNEL).selectExpr(
        "unix_seconds(hour) div 3600 h", "step", "activity", "sessions"
    )
    assert sorted(tuple(row) for row in counts.collect()) == [
        (hour, step + 1, FUNNEL[step], 1) for hour, (_, steps) in enumerate(PATHS) for step in range(steps)
    ]


def test_views_and_sessions_of_a_page(spark: SparkSession) -> None:
    rows = [(0, "a", "views", "/x"), (1, "a", "views", "/x"), (2, "a", "carts", "/x"), (0, "b", "views", "/x")]
    counts = frames.pages(frames.sessions(activities(spark, *rows), 30 * MINUTE), "views").collect()
    assert [(row.page, row.views, row.sessions) for row in counts] == [("/x", 3, 2)]


def test_unusable_activities_have_a_reason(spark: SparkSession) -> None:
    texts = [
        '{"time": "2026-03-14T10:00:00Z", "visitor": "a"}',
        "{",
        '{"visitor": "a"}',
        '{"time": "noon", "visitor": "a"}',
        None,
    ]
    frame = spark.createDataFrame([(text,) for text in texts], "text string").selectExpr(
        "cast(null as binary) key", "cast(text as binary) value", "'views' topic", "0 partition", "0L offset",
        "timestamp'2026-03-14 10:00:01' timestamp", "cast(null as array<struct<key:string,value:binary>>) headers",
    )  # fmt: skip
    parsed = frames.parse(frame)
    reasons = Counter(row.reason for row in events.refused(parsed).collect())
    assert reasons == {"not JSON": 1, "no time": 1, "time is no timestamp": 1, "empty": 1}
    assert len(plan_of(events.usable(parsed))) < len(plan_of(parsed)) * 1.2, "the filter is computed twice"


def test_without_a_topic_the_job_says_what_is_missing() -> None:
    with pytest.raises(Refusal, match="--topic names one"):
        needed(Namespace(topic=[], dead_letter=None))


class Shop:
    """A cluster's topics for the visits, and the jobs over them."""

    def __init__(self, spark: SparkSession, cluster: SparkCluster, visits: Visits, folder: Path) -> None:
        self.spark, self.cluster, self.visits = spark, cluster, visits
        self.topics = {kind: cluster.create(kind, 2) for kind in visits.kinds}
        self.letters = cluster.create("letters")
        common: dict[str, Any] = {"bootstrap": cluster.bootstrap, "topic": list(self.topics.values())}
        common |= {
            "dead_letter": self.letters,
            "gap": GAP_MS // 1000,
            "kafka_option": [],
            "trigger": "now",
            "max_offsets_per_trigger": 10_000,
            "optimize_every": 2,
        }
        self.live = Namespace(**common, output=str(folder / "live"), checkpoint=str(folder / "c"), lateness=600)
        self.nightly = Namespace(**common, output=str(folder / "nightly"), day=DAY, margin=4)
        self.said: list[str] = []

    def arrive(self, records: list[tuple[str, Record]]) -> None:
        for topic in self.topics.values():
            self.cluster.produce(topic, [record for name, record in records if name == topic])

    def run(self, module: Any, options: Namespace) -> None:
        module.JOB.run(JobRun(self.spark, options, self.said.append))

    def counts(self, options: Namespace) -> tuple[dict[str, int], dict[int, int], dict[str, int]]:
        """Views by page, sessions by step of the funnel, sessions by visitor."""
        tables = Tables(options.output, ())
        pages = frames.add_up(tables.read(self.spark, "pages"), "page").collect()
        steps = frames.add_up(tables.read(self.spark, "funnel"), "step").collect()
        visitors = tables.read(self.spark, "sessions").groupBy("visitor").count().collect()
        return (
            {row.page: row.views for row in pages},
            {row.step: row.sessions for row in steps},
            {row.visitor: row["count"] for row in visitors},
        )

    def dead(self) -> Counter[str]:
        """Dead letters by reason."""
        return Counter(dict(r.headers)["dead-letter.reason"].decode() for r in self.cluster.read(self.letters))


def test_live_and_nightly_find_the_same_known_truth(spark: SparkSession, cluster: SparkCluster, tmp_path: Path) -> None:
    visits = generate(7, MIDNIGHT_MS + 3_600_000, visitors=25)
    shop = Shop(spark, cluster, visits, tmp_path)
    records = visits.records(shop.topics, LATE_MS, random.Random(7))
    truth = (dict(visits.views), dict(visits.came), dict(visits.sessions))
    for part in (records[: len(records) // 2], records[len(records) // 2 :]):
        shop.arrive(part)
        shop.run(live_job, shop.live)
    views = shop.topics["page-views"]
    noon = Record(b'{"time": "2026-03-14T23:59:00Z", "visitor": "last"}', timestamp_ms=MIDNIGHT_MS + 86_340_000)
    late = Record(
        b'{"time": "2026-03-14T01:00:00Z", "visitor": "late", "page": "/"}', timestamp_ms=MIDNIGHT_MS + 86_350_000
    )
    broken = Record(b"<html>", timestamp_ms=MIDNIGHT_MS + 86_350_000)
    cluster.produce(views, [noon])  # closes every session so far
    shop.run(live_job, shop.live)
    cluster.produce(views, [late, broken])
    shop.run(live_job, shop.live)

    assert shop.counts(shop.live) == truth
    assert shop.dead() == {"too late": 1, "not JSON": 1}
    assert any("2 dead letters (1 not JSON, 1 too late), watermark 2026-03-14T23:49:00Z" in line for line in shop.said)

    live = shop.live.output
    assert rows_for_all(spark, f"{live}/sessions") == sum(truth[2].values())
    assert rows_for_all(spark, f"{live}/pages") > 0 and rows_for_all(spark, f"{live}/funnel") > 0
    for _ in range(2):  # a night that is run again replaces itself and repeats no dead letter
        shop.run(nightly_job, shop.nightly)
        pages, steps, visitors = shop.counts(shop.nightly)
        assert visitors == truth[2] | {"late": 1, "last": 1}  # nothing is too late for the night
        assert steps == {**truth[1], 1: truth[1][1] + 2}
        assert pages == truth[0] | {"/": truth[0]["/"] + 1}
    assert shop.dead() == {"too late": 1, "not JSON": 1}

    shop.said.clear()
    shop.run(report_job, Namespace(input=shop.live.output, since="2026-03-14", until="2026-03-15"))
    first = shop.said[1].split()
    assert (first[0], first[1]) == ("/", f"{truth[0]['/']:,}")
    assert shop.said[7].split()[:2] == ["1.", shop.topics["page-views"]]
