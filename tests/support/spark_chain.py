"""The queries that the fault tests hurt, as a module and as a driver of their own that can be killed.

A source topic goes to a Delta table and, stamped, to a second topic.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from support.spark_settings import QUICK
from tailrace_spark.once import stamped

COPIER = "copier"


class Chain:
    """Everything under one folder; `start` begins both queries or goes on from their checkpoints."""

    def __init__(self, spark: SparkSession, bootstrap: str, source: str, target: str, folder: Path) -> None:
        self.spark, self.bootstrap, self.source, self.target, self.folder = spark, bootstrap, source, target, folder

    def records(self, per_batch: int) -> DataFrame:
        """The source topic."""
        reader = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        options = {"subscribe": self.source, "startingOffsets": "earliest", "includeHeaders": "true"}
        return reader.options(maxOffsetsPerTrigger=per_batch, **options).load()

    def start(self, per_batch: int = 100_000, **trigger: Any) -> list[StreamingQuery]:
        """To a Delta table and to the target topic."""
        asked = trigger or {"processingTime": "0 seconds"}
        kept = self.records(per_batch).selectExpr("partition", "offset", "cast(value as string) value")
        table = kept.writeStream.format("delta").option("path", str(self.folder / "table"))
        copied = stamped(self.records(per_batch), COPIER).select("key", "value", "headers")
        topic = copied.writeStream.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        topic = topic.options(topic=self.target, includeHeaders="true")
        return [
            writer.option("checkpointLocation", str(self.checkpoint(name))).queryName(name).trigger(**asked).start()
            for name, writer in (("table", table), (COPIER, topic))
        ]

    def checkpoint(self, name: str) -> Path:
        """Where a query remembers how far it is."""
        return self.folder / f"checkpoint-{name}"

    def kept(self) -> list[tuple[int, int, str]]:
        """(partition, offset, value) of every row of the table."""
        rows = self.spark.read.format("delta").load(str(self.folder / "table")).collect()
        return sorted((row.partition, row.offset, row.value) for row in rows)


def main() -> None:
    """Runs the queries of the arguments in small batches and says each batch, until it is killed."""
    from tailrace_spark.progress import QueryProgress
    from tailrace_spark.session import open_session

    given = json.loads(sys.argv[1])
    folder = Path(given["folder"])
    spark = open_session(
        "driver", master="local[2]", jars=Path(given["jars"]), settings=QUICK, log=folder / "driver.log"
    )
    spark.streams.addListener(QueryProgress(lambda text: print(text, flush=True)))
    chain = Chain(spark, given["bootstrap"], given["source"], given["target"], folder)
    for query in chain.start(given["per_batch"]):
        query.awaitTermination()


if __name__ == "__main__":
    main()
