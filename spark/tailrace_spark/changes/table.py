"""Two Delta tables: `rows`, the captured table, and `deleted`, the positions of deletions.

An event changes a row only where it is not older than what the row, or its deletion, came from. So events that a
connector sends again, and batches that are done again, change nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr as expression
from pyspark.sql.types import StructField, StructType

from tailrace_spark.changes.columns import ChangeColumn, quoted
from tailrace_spark.changes.frames import OP, POSITION
from tailrace_spark.tables import delta

VIEW = "changes"
COLUMNS = "tailrace.changes.columns"
ATTEMPTS = 10


@dataclass(frozen=True)
class ChangedTable:
    """Where the two tables are, and what tells one row from another."""

    folder: str
    keys: tuple[str, ...]

    @property
    def rows(self) -> str:
        """The captured table, with `_position`."""
        return f"{self.folder.rstrip('/')}/rows"

    @property
    def deleted(self) -> str:
        """Keys and `_position`."""
        return f"{self.folder.rstrip('/')}/deleted"

    def merge(self, changes: DataFrame) -> None:
        """Applies the last event of each row, again where another writer, such as a compaction, committed before."""
        delta.retried(lambda: self.merge_once(changes), ATTEMPTS)

    def merge_once(self, changes: DataFrame) -> None:
        """Remembers the deletions first. A second time it changes nothing."""
        spark = changes.sparkSession
        gone = changes.where(f"{OP} = 'd'").select(*map(quoted, self.keys), POSITION)
        kept = [field for field in changes.schema.fields if field.name != OP]
        delta.create(spark, self.rows, StructType(kept))
        delta.create(spark, self.deleted, gone.schema)
        add_columns(spark, self.rows, kept)
        gone.createOrReplaceTempView(VIEW)
        spark.sql(
            f"MERGE INTO {delta.named(self.deleted)} t USING {VIEW} s ON {self.same('t', 's')} "
            f"WHEN MATCHED AND s.{POSITION} >= t.{POSITION} THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        current = changes.alias("s").join(
            delta.read(spark, self.deleted).alias("d"),
            expression(f"{self.same('s', 'd')} AND s.{OP} <> 'd' AND s.{POSITION} < d.{POSITION}"),
            "left_anti",
        )
        current.createOrReplaceTempView(VIEW)
        names = [quoted(field.name) for field in kept]
        newer = f"WHEN MATCHED AND s.{POSITION} >= t.{POSITION}"
        spark.sql(
            f"MERGE INTO {delta.named(self.rows)} t USING {VIEW} s ON {self.same('t', 's')} "
            f"{newer} AND s.{OP} = 'd' THEN DELETE "
            f"{newer} THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in names)} "
            f"WHEN NOT MATCHED AND s.{OP} <> 'd' THEN INSERT ({', '.join(names)}) "
            f"VALUES ({', '.join(f's.{name}' for name in names)})"
        )

    def remember(self, spark: SparkSession, columns: Sequence[ChangeColumn]) -> None:
        """Keeps the columns of the schemas so far in a property of the table."""
        if columns and tuple(columns) != self.remembered(spark):
            text = json.dumps([astuple(column) for column in columns])
            delta.retried(lambda: delta.set_property(spark, self.rows, COLUMNS, text), ATTEMPTS)

    def remembered(self, spark: SparkSession) -> tuple[ChangeColumn, ...]:
        """None where there is no table yet."""
        text = delta.properties(spark, self.rows).get(COLUMNS, "[]") if delta.is_table(spark, self.rows) else "[]"
        return tuple(ChangeColumn(*parts) for parts in json.loads(text))

    def same(self, one: str, other: str) -> str:
        """That two rows have one key."""
        return " AND ".join(f"{one}.{quoted(key)} = {other}.{quoted(key)}" for key in self.keys)


def add_columns(spark: SparkSession, path: str, fields: Sequence[StructField]) -> None:
    """Those that the source has had added."""
    present = set(delta.read(spark, path).columns)
    for field in fields:
        if field.name not in present:
            spark.sql(
                f"ALTER TABLE {delta.named(path)} ADD COLUMNS ({quoted(field.name)} {field.dataType.simpleString()})"
            )
