"""`tailrace produce`: each line of stdin is a record."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from tailrace.cli.daily.connection import Bootstrap, Topic, counted, say
from tailrace.cli.daily.nodes import NO_ID, Nodes, nodes
from tailrace.cli.daily.output import done
from tailrace.cli.daily.records.line_form import LineForm
from tailrace.cli.daily.records.producer import in_words, kafka_producer
from tailrace.cli.daily.refusals import RefusedError
from tailrace.errors import ErrorCode
from tailrace.reading.json_lines import NewRecord
from tailrace.wire.messages import MetadataRequest
from tailrace.wire.response_errors import response_errors

_REQUEST_BYTES_MAX: Final = 104_857_600  # socket.request.max.bytes: what is too large is the cluster's to say
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_NOT_YET: Final = frozenset({_UNKNOWN, ErrorCode.LEADER_NOT_AVAILABLE})
_AGAIN_MS, _TIMES_MAX = 50, 60
_DELIVERY_MS: Final = 120_000  # delivery.timeout.ms
_REQUEST_MS: Final = 30_000
_LINGER_MS: Final = 5


def produce(
    topic: Topic,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="each is one record; default: the lines of stdin")
    ] = None,
    separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", "-K", help="splits a line into key, value")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="of every record")] = None,
    headers: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="of every record; may be repeated")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="default: by the key")] = None,
    nulls: Annotated[bool, typer.Option("--null", "-Z", help="an empty value or key is null: a tombstone")] = False,
    lines: Annotated[
        Path | None, typer.Option("--lines", "-l", metavar="FILE", help="the lines of a file in place of stdin's")
    ] = None,
    as_data: Annotated[bool, typer.Option("--json", "-J", help="each line is a JSON object, as of consume")] = False,
    acks: Annotated[str, typer.Option(help="0, 1 or all")] = "all",
    bootstrap: Bootstrap = None,
) -> None:
    """Write each line of stdin as one record; the topic is created where auto.create.topics.enable says so."""
    if acks not in {"0", "1", "all"}:
        raise typer.BadParameter(f"--acks {acks}: expected 0, 1 or all")
    if as_data and (separator or key is not None or headers or nulls or files):
        raise typer.BadParameter("--json has keys, headers and nulls of its own, and takes lines")
    if files and (separator or lines):
        raise typer.BadParameter("a FILE is one record, without --key-separator and --lines")
    if sys.stdin is None and not files and lines is None:
        raise typer.BadParameter("there is no standard input to read lines from")
    form = LineForm(
        separator=os.fsencode(separator or ""),  # as it was typed, even if that is no UTF-8
        key=None if key is None else os.fsencode(key),
        headers=tuple((name, os.fsencode(value)) for name, value in _pairs(headers)),
        nulls=nulls,
        as_json=as_data,
    )
    with nodes(bootstrap, lasting=True) as cluster:
        _create_if_missing(cluster, topic)
        if partition is not None and (topic, partition) not in cluster.partitions([topic]):
            raise RefusedError(f"{topic} has no partition {partition}")
        cluster.check_leaders(topic)
        delivery_ms = int(cluster.deadline.given_ms or _DELIVERY_MS)  # kafka-python sends nothing with a float
    options: dict[str, object] = {
        "acks": acks if acks == "all" else int(acks),
        "linger_ms": _LINGER_MS,
        "max_request_size": _REQUEST_BYTES_MAX,
        "max_block_ms": delivery_ms,
        "delivery_timeout_ms": delivery_ms,
        "request_timeout_ms": min(_REQUEST_MS, max(1, delivery_ms - _LINGER_MS)),
    }
    count = 0
    failures = Failures()
    with kafka_producer(bootstrap, **options) as producer:
        wrong = ""
        try:
            for record in _records(files or [], lines, form):
                sent = producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=partition if record.partition is None else record.partition,
                    timestamp_ms=record.timestamp,
                )
                sent.add_errback(partial(failures.refused, count))
                sent.add_callback(partial(failures.written, count))
                count += 1
        except (ValueError, OSError, AssertionError) as stopped:
            why = f"{stopped.filename}: {stopped.strerror}" if isinstance(stopped, OSError) else stopped
            wrong = f"{count + 1}: {why}"
        producer.flush()
    if failures.numbers:
        refused = f"{len(failures.numbers)} of {count} records were not written to {topic}"
        say(f"{refused}: {failures.first}", err=True)
        raise typer.Exit(1)
    done(f"{counted(count, 'record')} written to {topic}", err=True, topic_name=topic, records_count=count)
    if wrong:
        say(f"record {wrong}", err=True)
        raise typer.Exit(1)


def _pairs(headers: list[str] | None) -> Iterator[tuple[str, str]]:
    for header in headers or ():
        name, equals, value = header.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--header {header}: expected NAME=VALUE")
        yield name, value


def _records(files: list[Path], lines: Path | None, form: LineForm) -> Iterator[NewRecord]:
    """Raises OSError or ValueError."""
    if files:
        yield from (form.record(path.read_bytes()) for path in files)
    elif lines is not None:
        with lines.open("rb") as opened:
            yield from map(form.of_line, opened)
    else:
        yield from map(form.of_line, sys.stdin.buffer)


class Failures:
    """Which records were refused, and why the first of them was; kafka-python may tell of one several times."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        self.first = ""

    def refused(self, number: int, error: BaseException) -> None:
        self.numbers.add(number)
        self.first = self.first or in_words(error)

    def written(self, number: int, _metadata: object) -> None:
        self.numbers.discard(number)


def _create_if_missing(cluster: Nodes, topic: str) -> None:
    """Asks for a topic as a producer does, which may create it; raises RefusedError if it is not there then."""
    asked = MetadataRequest.MetadataRequestTopic(name=topic, topic_id=NO_ID)
    request = MetadataRequest(topics=[asked], allow_auto_topic_creation=True)
    for _ in range(_TIMES_MAX):
        answer = cluster.ask(request, 12, handled=_NOT_YET)
        if not any(error.code == _UNKNOWN for error in response_errors(request.API_KEY, answer)):
            return
        cluster.pause(_AGAIN_MS)
    raise RefusedError(f"{topic}: no such topic, and it is not created by itself; `tailrace topic create` does it")
