"""The job `suggestions`: reads all purchases that a topic retains, writes each product's similar products by key."""

from __future__ import annotations

from argparse import Namespace

from tailrace_spark import dead_letter, events, kafka
from tailrace_spark.job import BOOTSTRAP, KAFKA_OPTION, Job, JobRun, Option
from tailrace_spark.stream.frames import latest
from tailrace_spark.suggestions import frames
from tailrace_spark.tables import delta
from tailrace_spark.values import whole

TOPIC = Option("--topic", "topic of purchases, one JSON object each", "purchases")
TO = Option("--to", "compacted topic for the suggestions", "suggestions")
OUTPUT = Option("--output", "Delta table for them too, (product, other, score), replaced as a whole")
MOST = Option("--most", "similar products of each product", 20, convert=whole(1))
TOGETHER = Option("--least-together", "buyers that two products must share", 2, convert=whole(1))


def run(run: JobRun) -> None:
    """Once over what is there."""
    options = run.options
    run.spark.conf.set("spark.sql.mapKeyDedupPolicy", "LAST_WIN")  # of JSON with a key twice
    parsed = frames.parse(kafka.read_batch(run.spark, options, [options.topic])).persist()
    letters = kafka.read_batch(run.spark, options, [dead_letter.topic_of(options)])
    reasons = dead_letter.write(dead_letter.unwritten(events.refused(parsed), letters), options, JOB.name)
    owned = frames.baskets(events.usable(parsed)).persist()
    scores = frames.similar(owned, options.most, options.least_together)
    before = latest(kafka.read_batch(run.spark, options, [options.to]))
    rows = frames.rows(scores, before, options.to).persist()
    try:
        if options.output:
            delta.replace(scores, options.output)
        kafka.write_batch(rows, options)
        products = rows.where("value is not null").count()
        gone = rows.count() - products
        run.say(
            f"{parsed.count():,} records, {owned.count():,} purchases that count: {products:,} products with similar "
            f"ones, {gone:,} no longer; {dead_letter.shown(reasons)}"
        )
    finally:
        for frame in (parsed, owned, rows):
            frame.unpersist()


def needed(options: Namespace) -> tuple[str, ...]:
    """Topics that must exist."""
    return (options.topic, options.to, dead_letter.topic_of(options))


JOB = Job(
    "suggestions",
    "Purchases to similar products, in a compacted topic keyed by product; a nightly batch.",
    (BOOTSTRAP, TOPIC, TO, OUTPUT, dead_letter.OPTION, MOST, TOGETHER, KAFKA_OPTION),
    run,
    needed,
)
