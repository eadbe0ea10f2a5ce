"""The tables of the output: sessions, pages and funnel, by batch (live) or by day (nightly), each part replaceable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from tailrace_spark.activity import frames
from tailrace_spark.refusal import Refusal


@dataclass(frozen=True)
class Counted:
    """What a write wrote."""

    sessions: int
    activities: int


@dataclass(frozen=True)
class Tables:
    """Under one folder: sessions/PART, pages/PART, funnel/PART."""

    folder: str
    funnel: Sequence[str]

    def write(self, closed: DataFrame, part: str) -> Counted:
        """Writes the sessions and what they count to; the same part again replaces itself."""
        folder = f"{self.folder}/sessions/{part}"
        closed.coalesce(1).write.mode("overwrite").parquet(folder)
        written = closed.sparkSession.read.schema(closed.schema).parquet(folder)
        counts = {
            "pages": frames.pages(written, self.funnel[0]),
            "funnel": frames.funnel_counts(written, self.funnel),
        }
        for name, rows in counts.items():
            rows.coalesce(1).write.mode("overwrite").parquet(f"{self.folder}/{name}/{part}")
        sizes = written.selectExpr("count(*) sessions", "coalesce(sum(size(steps)), 0) activities").collect()[0]
        return Counted(sizes.sessions, sizes.activities)

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """A table of all parts, counts not added up yet. Raises Refusal."""
        try:
            return spark.read.parquet(f"{self.folder}/{name}")
        except AnalysisException as error:
            raise Refusal(f"{self.folder} has no {name}; --input names what activity was given as --output.") from error
