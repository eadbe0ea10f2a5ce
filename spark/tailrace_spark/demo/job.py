"""Starts a cluster, sends it this machine's logs, works them off with the job `logs`, and searches them."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kafka import KafkaAdminClient, KafkaProducer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tailrace.testing import Cluster, ClusterDied
from tailrace_spark import dead_letter
from tailrace_spark.demo.machine import machine_lines
from tailrace_spark.job import Job, JobRun, Option
from tailrace_spark.launch import spark_settings
from tailrace_spark.logs import job as logs
from tailrace_spark.logs import query
from tailrace_spark.logs.schema import SEVERITIES
from tailrace_spark.logs.search import Ask, FoundLines, search
from tailrace_spark.logs.search_job import shown
from tailrace_spark.logs.store import LogTables
from tailrace_spark.refusal import Failed, Refusal
from tailrace_spark.session import open_session
from tailrace_spark.tables import delta
from tailrace_spark.values import whole

TOPIC = "machine-logs"
PARTITIONS = 4
# Asked in turn until one has an answer: what a healthy machine's logs hold differs.
QUERIES = ("error AND (timeout OR failed OR refused)", "error OR fail*", "installed AND lib*", "NOT thereisnosuchword")
ENOUGH = 3
WORST = 5  # sources
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
    run.say("Starting Spark; the first time it fetches the jars for Kafka and Delta …")
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
    run.say(f"{answer.scan.matches:,} of {answer.scan.lines:,} lines match.")
    for line in summary(delta.read(run.spark, LogTables(given.output).lines)):
        run.say(line)
    run.say(f"The lines are a Delta table, {LogTables(given.output).lines}: DuckDB, pandas and Spark read it.")


def summary(lines: DataFrame) -> Iterator[str]:
    """What this machine's logs complain of most."""
    bad = F.col("severity").isin(*SEVERITIES[: SEVERITIES.index("error") + 1])
    counts = lines.groupBy("source").agg(F.count("*").alias("lines"), F.count_if(bad).alias("errors")).collect()
    worst = sorted((row for row in counts if row.errors), key=lambda row: (-row.errors, row.source))
    yield f"\n{sum(row.errors for row in counts):,} errors in {sum(row.lines for row in counts):,} lines:"
    for row in worst[:WORST]:
        yield f"{row.errors:8,} in {row.source}, of {row.lines:,} lines"


def command() -> str:
    """What to type for this program: ./demo-spark runs it from an environment that is not on the PATH."""
    own = Path(sys.executable).with_name("tailrace-spark")
    found = shutil.which("tailrace-spark")
    if found or not own.exists():
        return "tailrace-spark"
    return str(own.relative_to(Path.cwd()) if own.is_relative_to(Path.cwd()) else own)


def first_answer(spark: SparkSession, output: str, texts: Iterable[str]) -> tuple[str, FoundLines]:
    """The first search that finds some lines, or the last one."""
    tables = LogTables(output)
    for text in texts:
        answer = search(spark, tables, Ask(query.parse(text), limit=10))
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
