"""Starts a cluster, sends it this machine's logs, works them off with the job `logs`, and searches them."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from kafka import KafkaAdminClient, KafkaProducer
from pyspark.sql import SparkSession

from tailrace.testing import Cluster, ClusterDied
from tailrace_spark import dead_letter
from tailrace_spark.demo.machine import machine_lines
from tailrace_spark.job import Job, JobRun, Option
from tailrace_spark.launch import spark_settings
from tailrace_spark.logs import job as logs
from tailrace_spark.logs import query
from tailrace_spark.logs.files import open_files
from tailrace_spark.logs.search import Ask, FoundLines, search
from tailrace_spark.logs.search_job import shown
from tailrace_spark.logs.table import Table
from tailrace_spark.refusal import Failed, Refusal
from tailrace_spark.session import open_session
from tailrace_spark.values import whole

TOPIC = "machine-logs"
PARTITIONS = 4
# Asked in turn until one has an answer: what a healthy machine's logs hold differs.
QUERIES = ("error AND (timeout OR failed OR refused)", "error OR fail*", "installed AND lib*", "NOT thereisnosuchword")
ENOUGH = 3
LINES = Option("--lines", "from the journal and from each file at most, the newest", 20_000, convert=whole(1))
QUERY = Option("--query", "what to search for at the end (default: what such logs often hold)")
FOLDER = Option("--folder", "where the table is kept (default: a new temporary folder)")


def run(run: JobRun) -> None:
    """The whole of it. Raises Refusal."""
    folder = Path(run.options.folder or tempfile.mkdtemp(prefix="tailrace-spark-demo-")).absolute()
    lines = list(machine_lines(run.options.lines))
    if not lines:
        raise Refusal("No log of this machine can be read; run it as a user who may read /var/log or the journal.")
    run.say("Starting a cluster …")
    try:
        with Cluster(data_dir=folder / "cluster") as cluster:
            run.say(f"Ready at {cluster.bootstrap}.")
            send(cluster.bootstrap, lines, run.say)
            with_spark(cluster.bootstrap, folder, run)
    except (ClusterDied, TimeoutError) as error:
        raise Failed(f"The cluster did not start: {error}") from None


def send(bootstrap: str, lines: Iterable[tuple[str, bytes]], say: Callable[[str], None]) -> None:
    """Every line into the topic, its source as the key."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    rows = {TOPIC: PARTITIONS, TOPIC + dead_letter.SUFFIX: 1}
    try:
        present = admin.list_topics()
        new = {name: {"num_partitions": count, "replication_factor": 1} for name, count in rows.items()}
        admin.create_topics({name: row for name, row in new.items() if name not in present})
    finally:
        admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5)
    sent: Counter[str] = Counter()
    try:
        for source, line in lines:
            producer.send(TOPIC, line, key=source.encode(), headers=[("source", source.encode())])
            sent[source] += 1
        producer.flush()
    finally:
        producer.close()
    say(f"Sent {sent.total():,} lines: " + ", ".join(f"{count:,} {source}" for source, count in sent.most_common()))


def with_spark(bootstrap: str, folder: Path, run: JobRun) -> None:
    """The Spark part, in a session of its own."""
    options = run.options
    run.say("Starting Spark; the first time it fetches the Kafka connector …")
    settings = {"spark.sql.shuffle.partitions": "2", **spark_settings(options.conf)}
    spark = open_session(
        "tailrace-spark demo", master=options.master, jars=options.jars, settings=settings, log=options.log
    )
    try:
        aggregate_and_search(JobRun(spark, options, run.say), bootstrap, folder)
    finally:
        spark.stop()


def aggregate_and_search(run: JobRun, bootstrap: str, folder: Path) -> None:
    """The job over what is there, then the search."""
    given = logs.JOB.given(
        bootstrap=bootstrap,
        topic=[TOPIC],
        checkpoint=str(folder / "checkpoint"),
        output=str(folder / "logs"),
        trigger="now",
        max_offsets_per_trigger=50_000,
    )
    logs.run(JobRun(run.spark, given, run.say))
    asked = [run.options.query] if run.options.query else QUERIES
    text, answer = first_answer(run.spark, given.output, asked)
    run.say(f"\n$ {command()} logs search {text!r} --output {given.output}")
    for row in reversed(answer.rows):
        run.say(shown(row))
    run.say(str(answer.scan))


def command() -> str:
    """What to type for this program: ./demo-spark runs it from an environment that is not on the PATH."""
    own = Path(sys.executable).with_name("tailrace-spark")
    found = shutil.which("tailrace-spark")
    if found or not own.exists():
        return "tailrace-spark"
    return str(own.relative_to(Path.cwd()) if own.is_relative_to(Path.cwd()) else own)


def first_answer(spark: SparkSession, output: str, texts: Iterable[str]) -> tuple[str, FoundLines]:
    """The first search that finds some lines, or the last one."""
    table = Table(open_files(spark, output))
    for text in texts:
        answer = search(spark, table, Ask(query.parse(text), limit=10))
        if len(answer.rows) >= ENOUGH:
            break
    return text, answer


JOB = Job(
    "demo",
    "Log aggregation on the logs of this machine, through a cluster that it starts; ends with a search.",
    (LINES, QUERY, FOLDER),
    run,
    needs_session=False,
)
