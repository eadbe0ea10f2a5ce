"""The Delta tables of the output: sessions, pages and funnel, added to by batch (live) or replaced by day (nightly)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tailrace_spark.activity import frames
from tailrace_spark.refusal import Refusal
from tailrace_spark.tables import delta


@dataclass(frozen=True)
class Counted:
    """What a write wrote."""

    sessions: int
    activities: int


@dataclass(frozen=True)
class Tables:
    """Under one folder: sessions, pages and funnel, each partitioned by the day (UTC) in which the session began."""

    folder: str
    funnel: Sequence[str]

    def path(self, name: str) -> str:
        """Of one table."""
        return f"{self.folder.rstrip('/')}/{name}"

    def rows(self, closed: DataFrame) -> dict[str, DataFrame]:
        """By table: the sessions, and what they count to."""
        return {
            "sessions": closed.withColumn("day", F.to_date("start")),
            "pages": frames.pages(closed, self.funnel[0]),
            "funnel": frames.funnel_counts(closed, self.funnel),
        }

    def append(self, closed: DataFrame, query: str, batch: int) -> Counted:
        """Adds a batch of sessions; one that is there already changes nothing."""
        for name, rows in self.rows(closed).items():
            delta.create(closed.sparkSession, self.path(name), rows.schema, ("day",))
            delta.append(rows.coalesce(1), self.path(name), query, batch)
        return counted(closed)

    def replace_day(self, closed: DataFrame, day: date) -> Counted:
        """Puts a day's sessions in the place of those that are there."""
        for name, rows in self.rows(closed).items():
            delta.create(closed.sparkSession, self.path(name), rows.schema, ("day",))
            delta.replace(rows.coalesce(1), self.path(name), f"day = DATE'{day}'")
        return counted(closed)

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """A table of all days, counts not added up yet. Raises Refusal."""
        if not delta.is_table(spark, self.path(name)):
            raise Refusal(f"{self.folder} has no {name}; --input names what activity was given as --output.")
        return delta.read(spark, self.path(name))

    def optimize(self, spark: SparkSession, say: delta.Say) -> None:
        """Compacts all."""
        for path in delta.tables_in(spark, self.folder):
            delta.optimize(spark, path, say)


def counted(closed: DataFrame) -> Counted:
    """How many sessions and activities."""
    sizes = closed.selectExpr("count(*) sessions", "coalesce(sum(size(steps)), 0) activities").collect()[0]
    return Counted(sizes.sessions, sizes.activities)
