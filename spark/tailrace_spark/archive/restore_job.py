"""`tailrace-spark restore`: an archive back into topics, which it makes where they are missing.

Keys, values, headers, timestamps, partitions and order come back as they were. Offsets do where the archive begins at 0
and has no gaps; else they close ranks. Killed and run again, it goes on where it was.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping

from tailrace_spark.admin import Topic, admin
from tailrace_spark.archive.frames import in_order, only
from tailrace_spark.archive.replay import replay
from tailrace_spark.archive.topics import FILE, from_json, left_different, to_create
from tailrace_spark.files import TextFiles
from tailrace_spark.job import BOOTSTRAP, KAFKA_OPTION, Job, JobRun, Option
from tailrace_spark.kafka import connection
from tailrace_spark.refusal import Refusal
from tailrace_spark.tables import delta

MOST_TASKS = 64


def wanted(options: Namespace) -> tuple[str, ...]:
    """The topics asked for; none means all."""
    return tuple(word.strip() for word in (options.topics or "").split(",") if word.strip())


def archived_topics(run: JobRun) -> dict[str, Topic]:
    """The archive's topics that are asked for. Raises Refusal."""
    folder = run.options.input
    text = TextFiles(run.spark, folder).read(FILE)
    if text is None:
        raise Refusal(f"{folder} is no archive (it has no {FILE}); --input names what archive was given as --output.")
    known = from_json(text)
    for name in wanted(run.options):
        if name not in known:
            raise Refusal(f"The archive has no topic {name}; it has: {', '.join(sorted(known))}.")
    return {name: topic for name, topic in known.items() if name in (wanted(run.options) or known)}


def make_topics(run: JobRun, topics: Mapping[str, Topic]) -> None:
    """Makes those that are missing. Raises Refusal where one is there with fewer partitions."""
    with admin(run.spark, connection(run.options)) as client:
        present = client.names()
        for name in sorted(topics.keys() - present):
            client.create(to_create(topics[name]))
            run.say(f"made {name} with {topics[name].partitions} partitions")
        for topic in client.describe(sorted(topics.keys() & present)):
            if topic.partitions < topics[topic.name].partitions:
                raise Refusal(
                    f"{topic.name} has {topic.partitions} partitions and the archive {topics[topic.name].partitions}; "
                    "delete it or add partitions."
                )


def restore(run: JobRun) -> None:
    """Runs to the end of the archive."""
    topics = archived_topics(run)
    make_topics(run, topics)
    total = 0
    if not delta.is_table(run.spark, run.options.input):
        raise Refusal(f"{run.options.input} has no Delta table; is it an archive?")
    archive = only(delta.read(run.spark, run.options.input), tuple(topics))
    tasks = max(1, min(MOST_TASKS, sum(topic.partitions for topic in topics.values())))
    settings = {key.removeprefix("kafka."): value for key, value in connection(run.options).items()}
    for topic, partition, written, present in sorted(
        in_order(archive, tasks).rdd.mapPartitions(lambda rows: replay(rows, settings)).collect()
    ):
        total += written
        run.say(f"{topic}-{partition}: {written:,} records" + (f", {present:,} were there" if present else ""))
    run.say(f"total: {total:,} records")
    for name, topic in sorted(topics.items()):
        if left := left_different(topic):
            configs = " ".join(f"{key}={value}" for key, value in left.items())
            run.say(
                f"{name} keeps everything for now; to clean it as before: tailrace config set topic {name} {configs}"
            )


JOB = Job(
    "restore",
    "Writes an archive back into topics: keys, values, headers, timestamps, partitions, order.",
    (
        BOOTSTRAP,
        Option("--input", "the folder that archive wrote", required=True),
        Option("--topics", "only these, separated by commas"),
        KAFKA_OPTION,
    ),
    restore,
)
