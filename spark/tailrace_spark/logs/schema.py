"""The one schema of log lines, whatever format they came in."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

SEVERITIES = ("emerg", "alert", "crit", "error", "warning", "notice", "info", "debug")  # by their syslog number

LOG = StructType(
    [
        StructField("timestamp", TimestampType(), False),  # when the line says it happened, else when it arrived
        StructField("source", StringType(), False),  # header `source`, else the record's key, else the format
        StructField("hour", StringType(), False),  # of the timestamp in UTC, 2026-11-21-16
        StructField("host", StringType()),
        StructField("service", StringType()),
        StructField("severity", StringType(), False),  # one of SEVERITIES
        StructField("message", StringType(), False),
        StructField("format", StringType(), False),  # syslog, rfc5424, json, access, dated or text
        StructField("fields", MapType(StringType(), StringType()), False),  # what else the line says
        StructField("topic", StringType(), False),  # with partition and offset: where the line is in the topic
        StructField("partition", IntegerType(), False),
        StructField("offset", LongType(), False),
    ]
)

# As stored: `block` numbers the runs of rows that the index points to.
STORED = StructType([*LOG.fields, StructField("block", LongType(), False)])

INDEX = StructType(
    [
        StructField("term", StringType()),
        StructField("blocks", ArrayType(LongType())),
        StructField("source", StringType()),
        StructField("hour", StringType()),
    ]
)
