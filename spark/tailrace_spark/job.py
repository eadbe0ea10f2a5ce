"""What a job is to the command line: its options, the topics it needs, and a function that runs it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from tailrace_spark import values


@dataclass(frozen=True)
class Option:
    """`--name VALUE`, or a positional word if the flag has no dashes; the value's key is the name with underscores."""

    flag: str
    about: str
    default: Any = None
    required: bool = False
    convert: Callable[[str], Any] = str  # raises ValueError with what it would have liked
    many: bool = False

    @property
    def key(self) -> str:
        """Its attribute in JobRun.options."""
        return self.flag.lstrip("-").replace("-", "_")


BOOTSTRAP = Option("--bootstrap", "the cluster's address, host:port", required=True)
CHECKPOINT = Option("--checkpoint", "folder that remembers how far the query is; one per job, kept", required=True)
OUTPUT = Option("--output", "folder that the job writes", required=True)
KAFKA_OPTION = Option(
    "--kafka-option", "KEY=VALUE for the Kafka client, such as security.protocol=SASL_SSL; repeatable", (), many=True
)
STREAMING = (
    Option(
        "--trigger",
        "'now' works off what is there and ends; else the time between batches",
        "10 seconds",
        convert=values.trigger,
    ),
    Option("--max-offsets-per-trigger", "records of one batch at most", 1_000_000, convert=values.whole(1)),
)


@dataclass(frozen=True)
class JobRun:
    """What a job is run with."""

    spark: SparkSession
    options: Namespace
    say: Callable[[str], None]


def no_topics(options: Namespace) -> tuple[str, ...]:
    """For a job that reads no topic that must exist."""
    return ()


@dataclass(frozen=True)
class Job:
    """`name` is what the user types, several words allowed; `topics` names those that must exist beforehand."""

    name: str
    about: str
    options: tuple[Option, ...]
    run: Callable[[JobRun], None]
    topics: Callable[[Namespace], tuple[str, ...]] = no_topics
    needs_session: bool = True  # False: run is called with spark=None and starts what it wants by itself

    def given(self, **values: Any) -> Namespace:
        """Options as the command line would give them: these values, by key, and the defaults of the others."""
        known = {option.key: list(option.default) if option.many else option.default for option in self.options}
        assert values.keys() <= known.keys(), f"{self.name} has no option {values.keys() - known.keys()}"
        return Namespace(**known | values)
