"""Jars and packages that layers fetch into .cache the first time, or find there."""

from __future__ import annotations

import os
from pathlib import Path


def kafka_jars() -> Path:
    """Apache Kafka's jars (Maven)."""
    from support import kafka_peer

    os.environ["KAFKA_LIBS"] = str(kafka_peer.libs())
    return kafka_peer.libs()


def kafka_classes() -> Path:
    """Apache Kafka's jars (Maven), and their classes as Java maps them."""
    from support import kafka_peer

    found = kafka_jars()
    kafka_peer.make_archive()
    return found


def compat_peers() -> Path:
    """Apache Kafka's jars and classes (Maven), and kafka-python's own tests (pip)."""
    from support import kafka_python_suite

    kafka_classes()
    return kafka_python_suite.folder()


def connector_jars() -> Path:
    """The jars of Spark's Kafka connector and of Delta Lake (Maven)."""
    from support import spark_jars

    return spark_jars.libs()
