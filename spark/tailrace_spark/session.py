"""The Spark session of a job: a local one with the jars of Kafka and Delta, or the one that spark-submit gives."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace_spark import connector
from tailrace_spark.refusal import Refusal

UNDER_SUBMIT = "PYSPARK_GATEWAY_PORT"  # spark-submit has started the JVM already
TABLES = {
    "spark.sql.extensions": connector.EXTENSION,
    "spark.sql.catalog.spark_catalog": connector.CATALOG,
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.databricks.delta.optimize.maxFileSize": str(128 << 20),
    "spark.databricks.delta.optimize.minFileSize": str(64 << 20),  # a file of this size is left alone
}
LOCAL = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",  # a checkpoint keeps the number its state began with
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    "spark.databricks.delta.snapshotPartitions": "2",  # of a table's log, else 50
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",  # of a vacuum's listing, else 10,000
}


def open_session(
    name: str,
    *,
    master: str | None = None,
    jars: Path | None = None,
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> SparkSession:
    """A session that knows format("kafka") and format("delta"). Raises Refusal.

    `log` gets what a JVM started here writes.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # 4.2 prints what it raises as well
    builder: Any = SparkSession.builder.appName(name)
    wanted = {"spark.sql.session.timeZone": "UTC", **TABLES}
    if UNDER_SUBMIT not in os.environ:
        builder = builder.master(master or "local[*]")
        local = (master or "local").startswith("local")
        wanted = {**wanted, **(LOCAL if local else {}), **jar_settings(jars)}
    for key, value in {**wanted, **(settings or {})}.items():
        builder = builder.config(key, value)
    try:
        with redirected(log):
            session: SparkSession = builder.getOrCreate()
    except (PySparkException, RuntimeError) as error:
        raise Refusal(why_no_session(jars, log)) from error
    for provider in (connector.PROVIDER, connector.EXTENSION):
        require_class(session, provider)
    return session


def jar_settings(jars: Path | None) -> dict[str, str]:
    """Where Spark finds the jars: the folder's jars, or Maven by coordinates."""
    if jars is None:
        return {"spark.jars.packages": ",".join(connector.coordinates(pyspark.__version__))}
    return {"spark.jars": ",".join(str(jar.absolute()) for jar in connector.jars_in(jars, pyspark.__version__))}


def why_no_session(jars: Path | None, log: Path | None) -> str:
    """The sentence for a JVM that did not start."""
    where = f"; {log} says why" if log else ""
    if jars is None:
        return (
            "Spark did not start, most often because Java 17 is missing or Maven Central cannot be reached for the "
            f"jars of Kafka and Delta (then --jars FOLDER names a folder that has them){where}."
        )
    return f"Spark did not start; it needs Java 17, found by JAVA_HOME or on the PATH{where}."


def require_class(session: SparkSession, name: str) -> None:
    """Raises Refusal where a class of the connector or of Delta is not on the class path."""
    jvm: Any = session._jvm
    try:
        loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
        jvm.java.lang.Class.forName(name, False, loader)
    except Exception as error:
        if "ClassNotFoundException" not in str(error):
            raise
        packages = ",".join(connector.coordinates(session.version))
        raise Refusal(f"{name} is not on the class path; add --packages {packages}.") from None


@contextmanager
def redirected(log: Path | None) -> Iterator[None]:
    """What is started inside writes its stdout and stderr to the file; this process keeps its own."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        kept = [swap(file, number) for number in (1, 2)]
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, old in zip((1, 2), kept, strict=True):
                os.dup2(old, number)
                os.close(old)


def swap(file: IO[bytes], number: int) -> int:
    """Points a file descriptor at the file; returns a copy of what it was."""
    sys.stdout.flush()
    sys.stderr.flush()
    old = os.dup(number)
    os.dup2(file.fileno(), number)
    return old
