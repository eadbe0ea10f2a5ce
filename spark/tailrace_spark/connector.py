"""The jars that a session needs: Spark's own Kafka connector and Delta Lake, as Maven coordinates."""

from __future__ import annotations

from pathlib import Path

from tailrace_spark.refusal import Refusal

SCALA = "2.13"
SPARK = "4.2"  # Delta is built for one Spark; the newest that both it and the connector are published for
PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
DELTA = "4.4.0"


def coordinates(version: str) -> tuple[str, ...]:
    """group:artifact:version of the jars for a PySpark version; Spark has what else they ask for."""
    return (
        f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{version}",
        f"org.apache.spark:spark-token-provider-kafka-0-10_{SCALA}:{version}",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
        f"io.delta:delta-spark_{SPARK}_{SCALA}:{DELTA}",
        f"io.delta:delta-storage:{DELTA}",
    )


def jars_in(folder: Path, version: str) -> tuple[Path, ...]:
    """The jars of a folder that must hold those. Raises Refusal naming the first that is missing."""
    if not folder.is_dir():
        raise Refusal(f"{folder} is not a folder; --jars names one with the jars of {', '.join(coordinates(version))}.")
    for coordinate in coordinates(version):
        _group, artifact, wanted = coordinate.split(":")
        if not list(folder.glob(f"{artifact}-*.jar")):
            raise Refusal(f"{folder} has no {artifact}-{wanted}.jar; copy it there from Maven ({coordinate}).")
    return tuple(sorted(folder.glob("*.jar")))
