"""`tailrace produce` and `tailrace consume`: lines in, lines out."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Final

import typer

from tailrace.cli.daily.connection import Bootstrap, Topic, address, given, tls
from tailrace.cli.daily.nodes import NO_ID, Nodes, nodes
from tailrace.cli.daily.refusals import RefusedError, sentence
from tailrace.errors import ErrorCode
from tailrace.wire.messages import MetadataRequest
from tailrace.wire.response_errors import response_errors

_BOOTSTRAP_MS: Final = 10_000
_REQUEST_BYTES_MAX: Final = 104_857_600  # socket.request.max.bytes: what is too large is the cluster's to say
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_NOT_YET: Final = frozenset({_UNKNOWN, ErrorCode.LEADER_NOT_AVAILABLE})
_AGAIN_MS, _TIMES_MAX = 50, 60
_NULL: Final = b"null"  # as Kafka's console consumer prints it


def produce(
    topic: Topic,
    separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", help="splits a line into key, value")
    ] = None,
    acks: Annotated[str, typer.Option(help="0, 1 or all")] = "all",
    bootstrap: Bootstrap = None,
) -> None:
    """Write each line of stdin as one record; the topic is created where auto.create.topics.enable says so."""
    if acks not in {"0", "1", "all"}:
        raise typer.BadParameter(f"--acks {acks}: expected 0, 1 or all")
    if sys.stdin is None:
        raise typer.BadParameter("there is no standard input to read lines from")
    with nodes(bootstrap) as cluster:
        _create_if_missing(cluster, topic)
    options = {"acks": acks if acks == "all" else int(acks), "linger_ms": 5, "max_request_size": _REQUEST_BYTES_MAX}
    mark = os.fsencode(separator or "")  # as it was typed, even if that is no UTF-8
    count = 0
    failures = Failures()
    with _client("KafkaProducer", bootstrap, **options) as producer:
        for line in sys.stdin.buffer:
            value = line.rstrip(b"\n")
            key = None
            if mark and mark in value:
                key, _, value = value.partition(mark)
            sent = producer.send(topic, value=value, key=key)
            sent.add_errback(partial(failures.refused, count))
            sent.add_callback(partial(failures.written, count))
            count += 1
        producer.flush()
    if failures.numbers:
        refused = f"{len(failures.numbers)} of {count} records were not written to {topic}"
        typer.echo(f"{refused}: {failures.first}", err=True)
        raise typer.Exit(1)
    typer.echo(f"{count} {'record' if count == 1 else 'records'} written to {topic}", err=True)


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


def consume(
    topic: Topic,
    group: Annotated[
        str | None, typer.Option("--group", "-g", callback=given, help="commit offsets in this group")
    ] = None,
    beginning: Annotated[bool, typer.Option("--from-beginning", help="all that is there, not only what comes")] = False,
    count: Annotated[int | None, typer.Option("--count", "-n", min=0, help="stop after so many records")] = None,
    key: Annotated[bool, typer.Option("--key", help="print the key and a tab before the value")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Print each record's value as one line, until Ctrl-C or --count; a null value or key is printed as null."""
    reset = "earliest" if beginning else "latest"
    out = sys.stdout.buffer
    with nodes(bootstrap) as cluster:
        cluster.partitions([topic])  # refuses an unknown one, which asking as a consumer would create
        if group is not None:
            cluster.coordinator(group)
    if count == 0:
        return
    options = {"group_id": group, "auto_offset_reset": reset, "allow_auto_create_topics": False}
    with _client("KafkaConsumer", bootstrap, **options) as consumer:
        consumer.subscribe([topic])
        try:
            for number, record in enumerate(consumer, 1):
                out.write(line_of(record.key, record.value, with_key=key))
                out.flush()
                if number == count:
                    return
        except (KeyboardInterrupt, BrokenPipeError):
            return


def line_of(key: bytes | None, value: bytes | None, *, with_key: bool) -> bytes:
    """A record as a line; null is not the same as empty."""
    told = (key, value) if with_key else (value,)
    return b"\t".join(_NULL if part is None else part for part in told) + b"\n"


@contextmanager
def _client(kind: str, bootstrap: str | None, /, **options: Any) -> Iterator[Any]:
    """A kafka-python client by class name; its errors end the command with one sentence and status 1."""
    import kafka
    from kafka.errors import KafkaError

    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what matters of its warnings ends as an error
    where = address(bootstrap)
    known: dict[str, Any] = {"bootstrap_servers": where.split(","), "client_id": f"tailrace-cli-{os.getpid()}"}
    if (encrypted := tls()) is not None:
        known |= {"security_protocol": "SSL", "ssl_context": encrypted}
    try:
        opened = getattr(kafka, kind)(**known, bootstrap_timeout_ms=_BOOTSTRAP_MS, **options)
        try:
            yield opened
        finally:
            opened.close()
    except KafkaError as error:
        typer.echo(f"{where}: {in_words(error)}", err=True)
        raise typer.Exit(1) from None


def in_words(error: BaseException) -> str:
    """An error of kafka-python without its class: Kafka's name of the code where it has one, and what it says."""
    said = " ".join(part for part in error.args if isinstance(part, str))
    said = said if "Request(" not in said else ""  # some hold the whole request and answer
    code = getattr(error, "errno", None)
    told = sentence(code, said) if isinstance(code, int) else said
    return told or "it was refused, and nothing says why"
