"""What can be known to fail before a query starts, said in a sentence: the address, the topics, the checkpoint."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from tailrace_spark.admin import admin
from tailrace_spark.files import TextFiles
from tailrace_spark.refusal import Refusal

MARKER = "tailrace-spark.json"  # in the checkpoint's folder; Spark leaves files alone that it does not know
_CONNECT_SECONDS = 3.0


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """`host:port,host:port` taken apart. Raises Refusal."""
    found = []
    for part in bootstrap.split(","):
        host, colon, port = part.strip().rpartition(":")
        if not colon or not host or not port.isdigit() or int(port) > 65535:
            raise Refusal(f"--bootstrap {bootstrap!r} is not host:port; for example --bootstrap localhost:9092.")
        found.append((host.strip("[]"), int(port)))
    return found


def require_listener(bootstrap: str) -> None:
    """Raises Refusal where none of the addresses takes a connection."""
    if not answers(bootstrap):
        raise Refusal(
            f"Nothing answers at --bootstrap {bootstrap}; start the cluster (tailrace up) or correct the address."
        )


def require_master(master: str | None) -> None:
    """Raises Refusal where no standalone master takes a connection: Spark itself would ask for a minute."""
    scheme, _, hosts = (master or "").partition("://")
    if scheme == "spark" and not answers(hosts):
        raise Refusal(f"Nothing answers at --master {master}; start Spark's master or correct the address.")


def answers(text: str) -> bool:
    """Whether one of the addresses takes a connection."""
    for address in addresses(text):
        try:
            socket.create_connection(address, _CONNECT_SECONDS).close()
            return True
        except OSError:
            continue
    return False


def require_topics(spark: SparkSession, connection: dict[str, str], topics: Iterable[str]) -> None:
    """Raises Refusal where the cluster does not answer as Kafka does or lacks one of the topics."""
    bootstrap = connection["kafka.bootstrap.servers"]
    try:
        with admin(spark, connection) as client:
            present = client.names()
    except Exception as error:  # py4j's, whatever the client threw
        raise Refusal(f"The cluster at {bootstrap} does not answer as Kafka does: {first_cause(error)}.") from error
    missing = sorted(set(topics) - present)
    if missing:
        raise Refusal(
            f"There is no topic {missing[0]} at {bootstrap}; create it (tailrace topic create {missing[0]}) or name "
            "another."
        )


def first_cause(error: Exception) -> str:
    """The innermost message of a Java exception, in one line."""
    cause: Any = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    text = str(cause.getMessage() if cause is not None else error)
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__


def claim_checkpoint(spark: SparkSession, folder: str, job: str) -> None:
    """Writes the job's name into a fresh checkpoint. Raises Refusal where it is another job's, or not a checkpoint."""
    try:
        files = TextFiles(spark, folder)
        marker = files.read(MARKER)
        owner = json.loads(marker)["job"] if marker else None
        if marker is None and files.is_empty():
            files.write(MARKER, json.dumps({"job": job}))
            owner = job
    except Exception as error:
        raise Refusal(f"--checkpoint {folder} cannot be used: {first_cause(error)}.") from error
    if owner != job:
        whose = f"the checkpoint of the job {owner}" if owner else "not empty and no checkpoint of tailrace-spark"
        raise Refusal(f"{folder} is {whose}; give {job} a --checkpoint of its own.")
