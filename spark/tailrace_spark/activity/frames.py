"""Activities to sessions, and sessions to counts that can be added up. Pure; the live job and the nightly one share it.

A kind of activity is the name of its topic. A session is a visitor's activities with less than a gap between them.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from tailrace_spark import events

ACTIVITY = {"time": "timestamp", "visitor": "string", "page": "string"}
REQUIRED = ("time", "visitor")
ORDER = ("topic", "partition", "offset")
OPEN = StructType(  # the activities of open sessions
    [
        StructField("time", TimestampType()),
        StructField("visitor", StringType()),
        StructField("page", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
    ]
)


def parse(records: DataFrame) -> DataFrame:
    """Records with the fields of an activity and `reason`."""
    return events.parse(records, ACTIVITY, REQUIRED)


def sessions(activities: DataFrame, gap_seconds: int) -> DataFrame:
    """One row a session: visitor, start, end, and steps (time, activity, page) in order of time."""
    by_visitor = Window.partitionBy("visitor").orderBy("time", *ORDER)
    pause = F.unix_micros("time") - F.lag(F.unix_micros("time")).over(by_visitor)
    begins = F.coalesce(pause >= gap_seconds * 1_000_000, F.lit(True)).cast("int")
    numbered = activities.withColumn("begins", begins).withColumn("number", F.sum("begins").over(by_visitor))
    step = F.struct("time", *ORDER, F.col("topic").alias("activity"), "page")
    whole = numbered.groupBy("visitor", "number").agg(
        F.min("time").alias("start"), F.max("time").alias("end"), F.sort_array(F.collect_list(step)).alias("steps")
    )
    told = F.transform("steps", lambda each: F.struct(each["time"], each["activity"], each["page"]))
    return whole.withColumn("steps", told).drop("number")


def is_closed(gap_seconds: int, watermark_us: int) -> Column:
    """True for sessions that no activity at the watermark or after can prolong."""
    return F.unix_micros("end") + gap_seconds * 1_000_000 <= watermark_us


def is_late(watermark_us: int) -> Column:
    """True for activities whose session may be closed already."""
    return F.unix_micros("time") < watermark_us


def still_open(activities: DataFrame, open_sessions: DataFrame) -> DataFrame:
    """The activities of those sessions, to be looked at again with what comes."""
    spans = open_sessions.select("visitor", "start", "end")
    mine = activities.join(spans, "visitor").where(F.col("time").between(F.col("start"), F.col("end")))
    return mine.select("time", "visitor", "page", *ORDER)


def pages(closed: DataFrame, viewing: str) -> DataFrame:
    """(day, hour, page, views, sessions) of the activity that views pages."""
    views = closed.select("visitor", "start", F.explode("steps").alias("step")).where(F.col("step.activity") == viewing)
    each = views.withColumns(
        {"day": F.to_date("start"), "hour": F.date_trunc("hour", "step.time"), "page": F.col("step.page")}
    )
    in_session = each.where("page is not null").groupBy("day", "hour", "page", "visitor", "start").count()
    return add_up(
        in_session.withColumnRenamed("count", "views").withColumn("sessions", F.lit(1)), "day", "hour", "page"
    )


def reached(steps: Column, funnel: Sequence[str]) -> Column:
    """How many steps of the funnel a session went through, in their order; others may lie between them."""
    names = F.array(*(F.lit(name) for name in funnel))
    return F.aggregate(
        steps,
        F.lit(0),
        lambda done, step: done + F.coalesce(step["activity"] == F.get(names, done), F.lit(False)).cast("int"),
    )


def funnel_counts(closed: DataFrame, funnel: Sequence[str]) -> DataFrame:
    """(day, hour, step, activity, sessions): sessions begun in that hour that came so far; steps count from 1."""
    names = F.array(*(F.lit(name) for name in funnel))
    came = closed.select(
        F.to_date("start").alias("day"),
        F.date_trunc("hour", "start").alias("hour"),
        F.posexplode(F.slice(names, F.lit(1), reached(F.col("steps"), funnel))).alias("at", "activity"),
    )
    rows = came.select("day", "hour", (F.col("at") + 1).alias("step"), "activity", F.lit(1).alias("sessions"))
    return add_up(rows, "day", "hour", "step", "activity")


def add_up(counts: DataFrame, *keys: str) -> DataFrame:
    """Counts of several batches as one, whatever has been counted."""
    counted = [name for name in ("views", "sessions") if name in counts.columns]
    return counts.groupBy(*keys).agg(*(F.sum(name).alias(name) for name in counted))
