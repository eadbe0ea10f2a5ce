"""Beyond one machine: the job by the command on a standalone master with two workers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from support.log_lines import lines
from support.ports import free_ports
from support.spark_cluster import SparkCluster
from support.spark_settings import JVM
from tailrace_spark import dead_letter
from tailrace_spark.logs.store import LogTables
from tailrace_spark.tables import delta

DEPLOY = "org.apache.spark.deploy"


@contextmanager
def daemon(folder: Path, name: str, ready: str, *arguments: str) -> Iterator[None]:
    """Spark's own daemon, from its being ready on; stopped at the end."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": JVM,
        "SPARK_WORKER_DIR": str(folder),
        "SPARK_NO_DAEMONIZE": "1",
    }
    command = [str(home / "bin" / "spark-class"), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    try:
        assert process.stdout
        said = []
        for line in process.stdout:
            said.append(line)
            if ready in line:
                break
        else:
            raise AssertionError(f"{name} ended: {''.join(said)}")
        yield
    finally:
        process.kill()
        process.communicate()


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[str]:
    """A master and its workers, one core each; gives the master's URL."""
    port = free_ports(1)
    url = f"spark://127.0.0.1:{port}"
    listen = ("--host", "127.0.0.1", "--webui-port", "0")
    with ExitStack() as stack:
        master = (f"{DEPLOY}.master.Master", *listen, "--port", str(port))
        stack.enter_context(daemon(folder, "master", "I have been elected leader", *master))
        for number in range(workers):
            worker = (f"{DEPLOY}.worker.Worker", *listen, "--cores", "1", "--memory", "600m", url)
            told = "Successfully registered with master"
            stack.enter_context(daemon(folder, f"worker {number}", told, *worker))
        yield url


def test_log_aggregation_on_a_master_with_two_workers(
    spark: SparkSession, cluster: SparkCluster, jars: Path, tmp_path: Path
) -> None:
    topic = cluster.create("logs", 2)
    cluster.create_exactly(topic + dead_letter.SUFFIX)
    every = list(lines(200, seed=9))
    cluster.produce(topic, [line.record() for line in every])
    with standalone(tmp_path / "work", workers=2) as master:
        command = [sys.executable, "-m", "tailrace_spark", "logs", "--master", master, "--jars", str(jars)]
        command += ["--bootstrap", cluster.bootstrap, "--topic", topic, "--trigger", "now"]
        command += ["--checkpoint", str(tmp_path / "checkpoint"), "--output", str(tmp_path / "table")]
        command += ["--log", str(tmp_path / "spark.log"), "--conf", "spark.sql.shuffle.partitions=2"]
        for setting in ("executor.memory=512m", "driver.memory=512m", "driver.host=127.0.0.1", "ui.enabled=false"):
            command += ["--conf", f"spark.{setting}"]
        for which in ("executor", "driver"):
            command += ["--conf", f"spark.{which}.extraJavaOptions={JVM}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    broken = sum(line.broken for line in every)
    assert f"logs batch 0: {len(every) - broken:,} lines, {broken} dead letters" in done.stdout
    assert delta.read(spark, LogTables(str(tmp_path / "table")).lines).count() == len(every) - broken
    executors = {path.name for path in (tmp_path / "work").glob("app-*/*")}
    assert len(executors) == 2, "both workers ran an executor"
