"""Options that the jobs share."""

from __future__ import annotations

from argparse import Namespace

from tailrace_spark import dead_letter, values
from tailrace_spark.job import Option
from tailrace_spark.refusal import Refusal

TOPIC = Option(
    "--topic", "a kind of activity; repeatable, in the order of the funnel, pages viewed first", (), many=True
)
GAP = Option("--gap", "seconds without activity that end a session", 1800, convert=values.whole(1))


def needed(options: Namespace) -> tuple[str, ...]:
    """Topics that must exist. Raises Refusal."""
    if not options.topic:
        raise Refusal(
            "Which activities? --topic names one, as often as there are, such as --topic page-views --topic carts."
        )
    return (*options.topic, dead_letter.topic_of(options))
