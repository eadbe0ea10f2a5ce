"""One Spark session and one cluster for the whole layer: a session takes nine seconds to start."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.garbage import collect_quietly
from support.plugin import leave_out
from support.spark_cluster import SparkCluster
from support.spark_settings import QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

if importlib.util.find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py"]  # the layer installs it: ./test spark

SETTINGS = {
    **QUICK,
    "spark.driver.memory": "1g",
    "spark.sql.streaming.minBatchesToRetain": "10",
    # A query that has nothing to do asks again at once, so that no test waits for its next look.
    "spark.sql.streaming.pollingDelay": "10ms",
}

# PySpark and kafka-python leave sockets to the garbage collector, which warns.
UNCLOSED = ("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")

# Of each test on a busy machine: one that is interrupted leaves a session that no other test can use.
TIMEOUT_S = int(os.environ.get("TAILRACE_SPARK_TEST_SECONDS", "900"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            for warning in UNCLOSED:
                item.add_marker(pytest.mark.filterwarnings(warning))
            item.add_marker(pytest.mark.timeout(TIMEOUT_S), append=False)


def pytest_sessionfinish() -> None:
    collect_quietly()


@pytest.fixture(scope="session")
def jars() -> Path:
    """The folder with the connector's jars."""
    from support import spark_jars

    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            leave_out(f"{program}: apt-get install -y openjdk-17-jre-headless maven")
    return spark_jars.libs(version("pyspark"))


@pytest.fixture(scope="session")
def spark(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The shared session: local, two cores. Its JVM's log is in the temporary folder, spark.log."""
    from tailrace_spark.session import open_session

    folder = tmp_path_factory.mktemp("spark")
    settings = {**SETTINGS, "spark.sql.warehouse.dir": str(folder / "warehouse")}
    session = open_session("tests", master="local[2]", jars=jars, settings=settings, log=folder / "spark.log")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[SparkCluster]:
    """Two brokers behind a gateway."""
    with SparkCluster(brokers=2) as running:
        yield running


@pytest.fixture
def cluster(shared_cluster: SparkCluster) -> SparkCluster:
    """The shared cluster, for tests that do it no harm."""
    return shared_cluster
