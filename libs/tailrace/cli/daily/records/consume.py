"""`tailrace consume`: each record is a line, read by the library's own reader in every compression type."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Annotated, Final

import typer

from tailrace.cli.daily.connection import Bootstrap, Topic, given, say
from tailrace.cli.daily.nodes import Nodes, nodes
from tailrace.cli.daily.output import form
from tailrace.cli.daily.refusals import RefusedError
from tailrace.errors import ApiError
from tailrace.printable import printable_lines
from tailrace.reading.cursor import Cursor
from tailrace.reading.json_lines import written
from tailrace.reading.member import GroupMember
from tailrace.reading.reader import Gap, TopicReader
from tailrace.reading.record_filter import OF_A_COMMAND, RecordFilter
from tailrace.reading.record_format import RecordFormat
from tailrace.reading.start import EARLIEST, LATEST, LATEST_TIMESTAMP, Start, parse_start, parse_time
from tailrace.records.record import Record

_WIDE: Final = r"%t-%p  %o  %T  %k  %s\n"
_NULL: Final = b"null"  # as Kafka's console consumer prints it
_WAIT_MS: Final = 500  # of a Fetch without records; a member of a group asks its coordinator in between
Polled = Iterator[tuple[int, Record]]
Line = Callable[[str, int, Record], bytes]


def consume(
    topic: Topic,
    group: Annotated[
        str | None, typer.Option("--group", "-g", callback=given, help="commit offsets in this group")
    ] = None,
    beginning: Annotated[bool, typer.Option("--from-beginning", help="the same as -o earliest")] = False,
    offsets: Annotated[
        list[str] | None,
        typer.Option(
            "--offset",
            "-o",
            metavar="WHERE",
            help="begin at earliest, latest (the default), an offset, -N for the last N of each partition, or s@TIME; "
            "end before e@TIME",
        ),
    ] = None,
    partitions: Annotated[list[int] | None, typer.Option("--partition", "-p", min=0, help="may be repeated")] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", "-c", min=0, help="stop after so many records")] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--exit", " /-e", help="wait for more, or stop at the end as it was at the start")
    ] = True,
    committed: Annotated[
        bool, typer.Option("--read-committed", help="leave out transactions that are open or aborted")
    ] = False,
    expression: Annotated[
        str | None,
        typer.Option("--filter", metavar="CEL", help="print those alone for which it is true, as 'value.amount > 10'"),
    ] = None,
    key: Annotated[bool, typer.Option("--key", help="print the key and a tab before the value")] = False,
    template: Annotated[
        str | None, typer.Option("--format", "-f", metavar="FORMAT", help="as kcat's: %t %p %o %T %k %K %s %S %h \\n")
    ] = None,
    as_data: Annotated[bool, typer.Option("--json", "-J", help="a JSON object for each record")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Print each record's value as one line, until Ctrl-C, --count or --exit; null is printed as null."""
    start, until = _window(offsets or [], beginning=beginning, follow=follow)
    line = _line(template, with_key=key, as_data=as_data or form() == "json")
    matches = _filter(expression)
    if group is not None and (partitions or until is not None or start not in {EARLIEST, LATEST}):
        raise typer.BadParameter("--group goes on where the group is: without -p, --exit, and -o at a place")
    with nodes(bootstrap, lasting=True) as cluster:
        cluster.check_leaders(topic)  # refuses an unknown topic, for which a consumer's Metadata would create it
        if group is not None:
            cluster.check(cluster.coordinator(group))
        reader = TopicReader(
            cluster.exchange,
            cluster.clock,
            topic,
            patience_ms=cluster.deadline.patience_ms,
            committed=committed,
            on_gap=_gap_report(topic),
        )
        member = None if group is None else _member(cluster, reader, group, topic, start)
        try:
            if member is None:
                reader.assign(_cursors(cluster, reader, start, until, partitions))
            try:
                if count != 0:
                    _print(topic, _polls(cluster, member or reader), count, line, matches)
            except (KeyboardInterrupt, BrokenPipeError):
                pass
            except (RefusedError, ApiError):
                with suppress(ApiError, OSError, TimeoutError):  # the first error is the one to report
                    _leave(cluster, member)
                raise
            _leave(cluster, member)
        finally:
            cluster.run(reader.close())
            if matches is not None and matches.failures:
                say(f"left out {matches.failures} records: --filter failed, first at {matches.first_failure}", err=True)


def _member(cluster: Nodes, reader: TopicReader, group: str, topic: str, start: Start) -> GroupMember:
    patience_ms = cluster.deadline.patience_ms
    return GroupMember(cluster.exchange, cluster.clock, reader, group, topic, start, patience_ms=patience_ms)


def _leave(cluster: Nodes, member: GroupMember | None) -> None:
    if member is not None:
        cluster.run(member.close())


def _window(offsets: list[str], *, beginning: bool, follow: bool) -> tuple[Start, int | None]:
    """Where to begin, and the timestamp to end at. Usage errors for what makes no sense."""
    starts = [EARLIEST] if beginning else []
    ends = []
    try:
        for text in offsets:
            if text.startswith("e@"):
                ends.append(parse_time(text.removeprefix("e@")))
            else:
                starts.append(parse_start(text))
    except ValueError as wrong:
        raise typer.BadParameter(f"--offset {wrong}") from None
    if len(starts) > 1 or len(ends) > 1:
        raise typer.BadParameter("one place to begin and one to end")
    return (starts or [LATEST])[0], ends[0] if ends else None if follow else LATEST_TIMESTAMP


def _cursors(
    cluster: Nodes, reader: TopicReader, start: Start, until: int | None, partitions: list[int] | None
) -> list[Cursor]:
    try:
        wanted = sorted(set(partitions)) if partitions else None
        return cluster.run(reader.find(start, until=until, partitions=wanted))
    except ValueError as wrong:
        raise RefusedError(str(wrong)) from None


def _filter(expression: str | None) -> RecordFilter | None:
    if expression is None:
        return None
    try:
        return RecordFilter(expression, OF_A_COMMAND)
    except ValueError as wrong:
        raise typer.BadParameter(f"--{wrong}") from None


def _line(template: str | None, *, with_key: bool, as_data: bool) -> Line:
    """How a record is printed."""
    if sum((template is not None, with_key, as_data)) > 1:
        raise typer.BadParameter("one of --format, --json and --key")
    if as_data:
        return lambda topic, partition, record: written(topic, partition, record).encode() + b"\n"
    if template is None and form() == "wide" and not with_key:
        template = _WIDE
    if template is None:
        return lambda topic, partition, record: line_of(record.key, record.value, with_key=with_key)
    try:
        return RecordFormat(template).render
    except (ValueError, UnicodeEncodeError) as wrong:
        raise typer.BadParameter(f"--format {wrong}") from None


def _gap_report(topic: str) -> Callable[[Gap], None]:
    def report(gap: Gap) -> None:
        say(
            f"{topic}-{gap.partition}: offset {gap.wanted} is not in the log any more; it goes on at {gap.next_offset}",
            err=True,
        )

    return report


def _polls(cluster: Nodes, reader: TopicReader | GroupMember) -> Iterator[Polled]:
    while not reader.done:
        cluster.deadline.check("records")
        yield cluster.run(reader.poll(_WAIT_MS))


def _print(
    topic: str, polls: Iterator[Polled], count: int | None, line: Line, matches: RecordFilter | None = None
) -> None:
    out = sys.stdout.buffer
    on_terminal = sys.stdout.isatty()
    number = 0
    for polled in polls:
        for partition, record in polled:
            if matches is not None and not matches(partition, record):
                continue
            text = line(topic, partition, record)
            out.write(for_terminal(text) if on_terminal else text)
            number += 1
            if number == count:
                out.flush()
                return
        out.flush()


def for_terminal(text: bytes) -> bytes:
    """Without what a record may tell the terminal to do; a pipe and a file get the bytes as they are."""
    body = text.removesuffix(b"\n")
    shown = "\t".join(printable_lines(part) for part in body.decode(errors="backslashreplace").split("\t"))
    return shown.encode() + text[len(body) :]


def line_of(key: bytes | None, value: bytes | None, *, with_key: bool) -> bytes:
    """A record as a line; null is not the same as empty."""
    fields = (key, value) if with_key else (value,)
    return b"\t".join(_NULL if part is None else part for part in fields) + b"\n"
