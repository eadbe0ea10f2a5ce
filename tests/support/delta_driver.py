"""A driver that a test kills: `delta_driver.py JARS LOG optimize|merge TABLE [SOURCE]`, one commit to a Delta table."""

from __future__ import annotations

import sys
from pathlib import Path

from tailrace_spark.session import open_session
from tailrace_spark.tables import delta

MERGE = (
    "MERGE INTO {} t USING {} s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET t.word = s.word WHEN NOT MATCHED THEN INSERT *"
)


def main(jars: str, log: str, what: str, table: str, source: str = "") -> None:
    spark = open_session("killed", master="local[1]", jars=Path(jars), log=Path(log))
    if what == "optimize":
        delta.optimize(spark, table, print)
    else:
        spark.sql(MERGE.format(delta.named(table), delta.named(source)))


if __name__ == "__main__":
    main(*sys.argv[1:])
