"""`tailrace consume`: each record is a line, read by the library's own reader in every compression type."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Final

import typer

from tailrace.cli.daily.connection import Bootstrap, Topic, given, say
from tailrace.cli.daily.nodes import Nodes, nodes
from tailrace.cli.daily.records.clients import kafka_client
from tailrace.reading.reader import Gap, TopicReader
from tailrace.reading.start import EARLIEST, LATEST, Start
from tailrace.records.record import Record

_NULL: Final = b"null"  # as Kafka's console consumer prints it
_WAIT_MS: Final = 500  # of a Fetch without records; a member of a group asks its coordinator in between
Polled = Iterator[tuple[int, Record]]


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
    start = EARLIEST if beginning else LATEST
    if group is not None:  # before `nodes`, which keeps kafka-python's clients out
        from tailrace.cli.daily.records.member import TopicMember
    with nodes(bootstrap, lasting=True) as cluster:
        cluster.check_leaders(topic)  # refuses an unknown topic, for which a consumer's Metadata would create it
        if group is not None:
            cluster.check(cluster.coordinator(group))
        if count == 0:
            return
        reader = TopicReader(
            cluster.exchange, cluster.clock, topic, patience_ms=cluster.deadline.patience_ms, on_gap=_told(topic)
        )
        try:
            if group is None:
                reader.assign(cluster.run(reader.find(start)))
                _print(_polls(cluster, reader), count, with_key=key)
                return
            with kafka_client("KafkaConsumer", bootstrap, **_membership(group, start)) as consumer:
                _print(TopicMember(consumer, topic).polls(reader, cluster), count, with_key=key)
        except (KeyboardInterrupt, BrokenPipeError):
            return
        finally:
            cluster.run(reader.close())


def _membership(group: str, start: Start) -> dict[str, object]:
    reset = "earliest" if start == EARLIEST else "latest"
    return {"group_id": group, "auto_offset_reset": reset, "allow_auto_create_topics": False}


def _told(topic: str) -> Callable[[Gap], None]:
    def tell(gap: Gap) -> None:
        say(
            f"{topic}-{gap.partition}: offset {gap.wanted} is not in the log any more; it goes on at {gap.next_offset}",
            err=True,
        )

    return tell


def _polls(cluster: Nodes, reader: TopicReader) -> Iterator[Polled]:
    while not reader.done:
        cluster.deadline.check("records")
        yield cluster.run(reader.poll(_WAIT_MS))


def _print(polls: Iterator[Polled], count: int | None, *, with_key: bool) -> None:
    out = sys.stdout.buffer
    number = 0
    for polled in polls:
        for _, record in polled:
            out.write(line_of(record.key, record.value, with_key=with_key))
            number += 1
            if number == count:
                out.flush()
                return
        out.flush()


def line_of(key: bytes | None, value: bytes | None, *, with_key: bool) -> bytes:
    """A record as a line; null is not the same as empty."""
    told = (key, value) if with_key else (value,)
    return b"\t".join(_NULL if part is None else part for part in told) + b"\n"
