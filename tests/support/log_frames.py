"""Log lines as a frame of the job `logs`, without a topic."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession

from support.log_lines import BEGAN, Line
from support.spark_frames import record, records
from tailrace_spark.logs import parse

ARRIVED = BEGAN + timedelta(hours=4, minutes=10)


def parsed_lines(spark: SparkSession, lines: Iterable[Line]) -> DataFrame:
    """Columns of LOG, offsets from 0."""
    spark.conf.set("spark.sql.mapKeyDedupPolicy", "LAST_WIN")
    rows = [record(n, line.value, key=line.source, timestamp=ARRIVED) for n, line in enumerate(lines)]
    return parse.lines(parse.parse(records(spark, rows)))
