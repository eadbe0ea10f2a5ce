"""`tailrace group reset`: which partitions, the plan, and its commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import typer

from tailrace.cli.daily.connection import counted, say
from tailrace.cli.daily.groups.cluster import GroupInCluster, leaders_of, topic_names
from tailrace.cli.daily.nodes import Nodes
from tailrace.cli.daily.output import is_json, show
from tailrace.cli.daily.refusals import RefusedError
from tailrace.metadata.moves import Partition
from tailrace.printable import printable
from tailrace.reading.offset_reset import (
    NewOffset,
    OffsetReset,
    To,
    parse_csv,
    parse_datetime,
    parse_duration,
    parse_topic,
    plan,
    write_csv,
)
from tailrace.reading.topic_regex import matching_topics

_WISHES: Final[Mapping[str, Callable[[str, float], OffsetReset]]] = {
    "--to-earliest": lambda _, now_ms: OffsetReset(To.EARLIEST),
    "--to-latest": lambda _, now_ms: OffsetReset(To.LATEST),
    "--to-current": lambda _, now_ms: OffsetReset(To.CURRENT),
    "--to-offset": lambda text, now_ms: OffsetReset(To.OFFSET, int(text)),
    "--shift-by": lambda text, now_ms: OffsetReset(To.SHIFT, int(text)),
    "--to-datetime": lambda text, now_ms: OffsetReset(To.TIME, parse_datetime(text)),
    "--by-duration": lambda text, now_ms: OffsetReset(To.TIME, max(0, round(now_ms) - parse_duration(text))),
    "--from-file": lambda text, now_ms: OffsetReset(To.FILE, offsets=_read(text)),
}


_COLUMNS: Final = {
    "topic_name": "topic",
    "partition_id": "partition",
    "current_offset": "committed",
    "new_offset": "new offset",
}


class Scope(NamedTuple):
    """The partitions that a reset is about."""

    topics: Sequence[str]
    pattern: str | None
    all_topics: bool


def parse(options: Mapping[str, object], now_ms: float) -> OffsetReset:
    """The one option that is given. Usage errors for none, several, or a value that cannot be used."""
    given = {name: value for name, value in options.items() if value is not None}
    if len(given) != 1:
        raise typer.BadParameter(f"one of {', '.join(options)}")
    ((name, value),) = given.items()
    try:
        return _WISHES[name](str(value), now_ms)
    except ValueError as wrong:
        raise typer.BadParameter(f"{name} {wrong}") from None


def _read(path: str) -> dict[Partition, int]:
    try:
        return parse_csv(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: it is not UTF-8") from None


def run(
    cluster: Nodes,
    group: GroupInCluster,
    wish: OffsetReset,
    scope: Scope,
    *,
    execute: bool,
    export: bool,
) -> None:
    """Prints the plan, after it is committed if it is to be."""
    described = group.found()
    if described is not None and described.members:
        has = counted(len(described.members), "member")
        raise RefusedError(f"{group.group_id} has {has}, and a member commits over a reset: stop its consumers first")
    committed = group.committed()
    wanted = _partitions(cluster, wish, scope, committed)
    if not wanted:
        raise RefusedError(
            f"{group.group_id} has committed no offset, so that there is nothing to reset; --topic names what is to be"
        )
    leaders = leaders_of(cluster, wanted)
    try:
        rows = plan(wish, wanted, committed, {at: cluster.offsets(leaders, at) for at in wish.timestamps})
    except ValueError as wrong:
        raise RefusedError(str(wrong)) from None
    if execute:
        group.commit({(row.topic, row.partition): row.new_offset for row in rows})
    for row in rows:
        if row.wanted != row.new_offset:
            say(
                f"{row.topic}-{row.partition}: offset {row.wanted} is not in the log; it becomes {row.new_offset}",
                err=True,
            )
    if export:
        typer.echo(write_csv(rows), nl=False)
    else:
        _print(group.group_id, rows, execute=execute)


def _partitions(cluster: Nodes, wish: OffsetReset, scope: Scope, committed: Mapping[Partition, int]) -> set[Partition]:
    """Raises RefusedError for a topic or a partition that does not exist."""
    named = bool(scope.topics or scope.pattern is not None)
    if wish.to is To.FILE:
        if named or scope.all_topics:
            raise typer.BadParameter("--from-file names the partitions itself")
        _check_known(cluster, set(wish.offsets))
        return set(wish.offsets)
    if not named:
        return set(committed)
    if scope.all_topics:
        raise typer.BadParameter("--all-topics, or --topic and --topic-regex")
    whole = [] if scope.pattern is None else _matching(cluster, scope.pattern)
    found: set[Partition] = set()
    for name, indexes in map(parse_topic, scope.topics):
        if indexes is None:
            whole.append(name)
        else:
            found.update((name, index) for index in indexes)
    _check_known(cluster, found)
    return found | (set(cluster.partitions(sorted(set(whole)))) if whole else set())


def _check_known(cluster: Nodes, partitions: set[Partition]) -> None:
    if not partitions:
        return
    known = cluster.partitions(sorted({name for name, _ in partitions}))
    if unknown := sorted(partitions - known.keys()):
        name, index = unknown[0]
        raise RefusedError(f"{name} has no partition {index}; `tailrace topic describe` names them")


def _matching(cluster: Nodes, pattern: str) -> list[str]:
    try:
        found = matching_topics(pattern, topic_names(cluster))
    except ValueError as wrong:
        raise typer.BadParameter(f"--topic-regex {wrong}") from None
    if not found:
        raise RefusedError(f"no topic matches {pattern}; `tailrace topic list` names the topics")
    return found


def _data(row: NewOffset) -> dict[str, object]:
    return {
        "topic_name": row.topic,
        "partition_id": row.partition,
        "current_offset": row.current_offset,
        "new_offset": row.new_offset,
    }


def _print(group_id: str, rows: Sequence[NewOffset], *, execute: bool) -> None:
    shown = list(map(_data, rows))
    data = {"consumer_group_id": group_id, "executed": execute, "partitions": shown}
    show(shown, _COLUMNS, data=data)
    if is_json():
        return
    what = counted(len(rows), "partition")
    say(f"{printable(group_id)}: {what} {'reset' if execute else 'to reset; nothing is changed without --execute'}")
