"""Delta tables by path: made, appended to once a batch, compacted and vacuumed.

They use no reader feature (reader version 1), so that Spark, delta-rs and DuckDB all read them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tailrace_spark.files import TextFiles

PROPERTIES = {"delta.enableDeletionVectors": "false"}
Say = Callable[[str], None]
CONFLICT = "DELTA_CONCURRENT"  # of the error class that a writer gets whose commit came second


def create(spark: SparkSession, path: str, schema: StructType, by: Sequence[str] = (), **properties: str) -> None:
    """An empty table, partitioned by these columns, where there is none yet; two writers may do so at once."""
    if is_table(spark, path):
        return
    empty = spark.range(0).select(*(F.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields))
    try:
        empty.write.format("delta").mode("ignore").partitionBy(*by).options(**PROPERTIES, **properties).save(path)
    except (PySparkException, Py4JJavaError):
        if not is_table(spark, path):
            raise


def is_table(spark: SparkSession, path: str) -> bool:
    """Whether a Delta table is there."""
    java: Any = spark
    found: bool = java._jvm.io.delta.tables.DeltaTable.isDeltaTable(java._jsparkSession, path)
    return found


def tables_in(spark: SparkSession, folder: str) -> list[str]:
    """The folder if it is a table, else those folders in it that are tables."""
    if is_table(spark, folder):
        return [folder]
    below = (f"{folder.rstrip('/')}/{name}" for name in TextFiles(spark, folder).folders())
    return [path for path in below if is_table(spark, path)]


def read(spark: SparkSession, path: str) -> DataFrame:
    """The newest version."""
    return spark.read.format("delta").load(path)


def properties(spark: SparkSession, path: str) -> Mapping[str, str]:
    """The properties of a table."""
    found = spark.sql(f"DESCRIBE DETAIL {named(path)}").select("properties").first()
    assert found is not None
    return dict(found.properties)


def set_property(spark: SparkSession, path: str, key: str, text: str) -> None:
    """Of a table; the others stay."""
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    spark.sql(f"ALTER TABLE {named(path)} SET TBLPROPERTIES ('{key}' = '{quoted}')")


def append(rows: DataFrame, path: str, query: str, batch: int) -> None:
    """Adds the rows of a query's batch; a batch that is in the table already changes nothing."""
    rows.write.format("delta").mode("append").options(txnAppId=query, txnVersion=batch).save(path)


def replace(rows: DataFrame, path: str, where: str | None = None) -> None:
    """Puts the rows in the place of those that the condition holds for, or of all, in one commit."""
    condition = {"replaceWhere": where} if where else {}
    rows.write.format("delta").mode("overwrite").options(**condition).save(path)


def retried(action: Callable[[], None], attempts: int) -> None:
    """Does it again, so many times at most, where another writer's commit came first."""
    for attempt in range(1, attempts + 1):
        try:
            return action()
        except (PySparkException, Py4JJavaError) as error:
            if CONFLICT not in str(error) or attempt == attempts:
                raise


def query_id(batch: DataFrame) -> str:
    """The id of the streaming query that a batch is of, from its checkpoint: the same after a restart."""
    found: str = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    return found


@dataclass(frozen=True)
class TableVersion:
    """One version of a table as its log has it: no data file was opened."""

    size_bytes: int
    batches: Mapping[str, int]  # by query: the last batch that is in
    files: DataFrame  # path, partitionValues, size, stats (JSON)


def snapshot(spark: SparkSession, path: str) -> TableVersion:
    """The newest version."""
    java: Any = spark
    found = java._jvm.org.apache.spark.sql.delta.DeltaLog.forTableWithSnapshot(java._jsparkSession, path)._2()
    transactions = java._jvm.scala.jdk.javaapi.CollectionConverters.asJava(found.transactions())
    batches = {str(query): int(batch) for query, batch in transactions.items()}
    return TableVersion(found.sizeInBytes(), batches, DataFrame(found.allFiles().toDF(), spark))


def optimize(spark: SparkSession, path: str, say: Say) -> int:
    """Makes few large files of many small ones, in one commit; returns how many went.

    Writers go on beside it. Where another writer has replaced the same files before, it changes nothing.
    """
    try:
        done = spark.sql(f"OPTIMIZE {named(path)}").select("metrics.numFilesAdded", "metrics.numFilesRemoved").first()
    except (PySparkException, Py4JJavaError) as error:
        if CONFLICT not in str(error):
            raise
        say(f"{path}: another writer was faster")
        return 0
    assert done is not None
    if done.numFilesRemoved:
        say(f"{path}: {done.numFilesRemoved:,} files compacted into {done.numFilesAdded:,}")
    return int(done.numFilesRemoved)


def vacuum(spark: SparkSession, path: str, keep_hours: float) -> int:
    """Deletes files that no version of the last hours has; returns how many.

    A write that lasts longer than `keep_hours` would lose its files.
    """
    settings = {
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.databricks.delta.vacuum.logging.enabled": "true",
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        spark.sql(f"VACUUM {named(path)} RETAIN {keep_hours} HOURS")
    finally:
        for key in settings:
            spark.conf.unset(key)
    ends = spark.sql(f"DESCRIBE HISTORY {named(path)}").where("operation = 'VACUUM END'").orderBy(F.desc("version"))
    end = ends.select(F.expr("operationMetrics['numDeletedFiles']").cast("long").alias("files")).first()
    assert end is not None
    return int(end.files)


def named(path: str) -> str:
    """For SQL."""
    return f"delta.`{path.replace('`', '``')}`"
