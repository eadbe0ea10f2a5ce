"""`tailrace produce` and `tailrace consume`: lines in, lines out."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tailrace.cli.daily.connection import Bootstrap, client

Topic = Annotated[str, typer.Argument(help="topic name")]


def produce(
    topic: Topic,
    separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", help="splits a line into key, value")
    ] = None,
    acks: Annotated[str, typer.Option(help="0, 1 or all")] = "all",
    bootstrap: Bootstrap = None,
) -> None:
    """Write each line of stdin as one record."""
    if acks not in {"0", "1", "all"}:
        raise typer.BadParameter(f"--acks {acks}: expected 0, 1 or all")
    count = 0
    with client("KafkaProducer", bootstrap, acks=acks if acks == "all" else int(acks), linger_ms=5) as producer:
        failures: list[BaseException] = []
        for line in sys.stdin.buffer:
            value = line.rstrip(b"\n")
            key = None
            if separator and separator.encode() in value:
                key, _, value = value.partition(separator.encode())
            producer.send(topic, value=value, key=key).add_errback(failures.append)
            count += 1
        producer.flush()
        if failures:
            raise failures[0]
    typer.echo(f"{count} records written to {topic}", err=True)


def consume(
    topic: Topic,
    group: Annotated[str | None, typer.Option("--group", "-g", help="commit offsets in this group")] = None,
    beginning: Annotated[bool, typer.Option("--from-beginning", help="all that is there, not only what comes")] = False,
    count: Annotated[int | None, typer.Option("--count", "-n", help="stop after so many records")] = None,
    key: Annotated[bool, typer.Option("--key", help="print the key and a tab before the value")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Print each record's value as one line, until Ctrl-C or --count."""
    reset = "earliest" if beginning else "latest"
    out = sys.stdout.buffer
    if count == 0:
        return
    with client("KafkaConsumer", bootstrap, group_id=group, auto_offset_reset=reset) as consumer:
        consumer.subscribe([topic])
        try:
            for number, record in enumerate(consumer, 1):
                if key:
                    out.write((record.key or b"") + b"\t")
                out.write((record.value or b"") + b"\n")
                out.flush()
                if number == count:
                    return
        except (KeyboardInterrupt, BrokenPipeError):
            return
