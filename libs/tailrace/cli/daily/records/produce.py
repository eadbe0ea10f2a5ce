"""`tailrace produce`: each line of stdin is a record."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Annotated, Any, Final

import typer

from tailrace.cli.daily.connection import Bootstrap, Topic, say
from tailrace.cli.daily.nodes import NO_ID, Nodes, nodes
from tailrace.cli.daily.records.clients import in_words, kafka_client
from tailrace.cli.daily.refusals import RefusedError
from tailrace.errors import ErrorCode
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
    with nodes(bootstrap, lasting=True) as cluster:
        _create_if_missing(cluster, topic)
        cluster.check_leaders(topic)
        delivery_ms = int(cluster.deadline.given_ms or _DELIVERY_MS)  # kafka-python sends nothing with a float
    options: dict[str, Any] = {
        "acks": acks if acks == "all" else int(acks),
        "linger_ms": _LINGER_MS,
        "max_request_size": _REQUEST_BYTES_MAX,
        "max_block_ms": delivery_ms,
        "delivery_timeout_ms": delivery_ms,
        "request_timeout_ms": min(_REQUEST_MS, max(1, delivery_ms - _LINGER_MS)),
    }
    mark = os.fsencode(separator or "")  # as it was typed, even if that is no UTF-8
    count = 0
    failures = Failures()
    with kafka_client("KafkaProducer", bootstrap, **options) as producer:
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
        say(f"{refused}: {failures.first}", err=True)
        raise typer.Exit(1)
    say(f"{count} {'record' if count == 1 else 'records'} written to {topic}", err=True)


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
