"""Spark's own Kafka connector: which jars a PySpark version needs, as Maven coordinates."""

from __future__ import annotations

from pathlib import Path

from tailrace_spark.refusal import Refusal

SCALA = "2.13"
PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
# The connector's version is PySpark's. 4.0.0's token provider serves newer connectors too.
NEEDS = {
    "4.0": ("4.0.0", "3.9.0", "2.12.0"),
    "4.1": ("4.0.0", "3.9.1", "2.12.1"),
    "4.2": ("4.0.0", "3.9.2", "2.13.1"),
}
NEWEST = "4.2"


def coordinates(version: str) -> tuple[str, ...]:
    """group:artifact:version of the four jars for a PySpark version, none of which needs another one."""
    token_provider, clients, pool = NEEDS.get(".".join(version.split(".")[:2]), NEEDS[NEWEST])
    return (
        f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{version}",
        f"org.apache.spark:spark-token-provider-kafka-0-10_{SCALA}:{token_provider}",
        f"org.apache.kafka:kafka-clients:{clients}",
        f"org.apache.commons:commons-pool2:{pool}",
    )


def jars_in(folder: Path, version: str) -> tuple[Path, ...]:
    """The jars of a folder that must hold those four. Raises Refusal naming the first that is missing."""
    if not folder.is_dir():
        raise Refusal(f"{folder} is not a folder; --jars names one with the jars of {', '.join(coordinates(version))}.")
    for coordinate in coordinates(version):
        _group, artifact, wanted = coordinate.split(":")
        if not list(folder.glob(f"{artifact}-*.jar")):
            raise Refusal(f"{folder} has no {artifact}-{wanted}.jar; copy it there from Maven ({coordinate}).")
    return tuple(sorted(folder.glob("*.jar")))
