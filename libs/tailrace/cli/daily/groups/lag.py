"""`tailrace group lag`: looks at a group's lag, once or again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from tailrace.cli.daily.connection import counted, local_time, say
from tailrace.cli.daily.groups.cluster import GroupInCluster
from tailrace.cli.daily.nodes import Nodes
from tailrace.cli.daily.output import is_json, show
from tailrace.kafka.ids import TopicPartition
from tailrace.kafka.lag import PartitionLag, lag_trend
from tailrace.printable import printable

_COLUMNS: Final = {
    "topic_name": "topic",
    "partition_id": "partition",
    "current_offset": "committed",
    "log_end_offset": "end offset",
    "lag": "lag",
    "lag_seconds": "seconds",
    "consumer_id": "member",
}
_WITH_TREND: Final = {key: name for key, name in _COLUMNS.items() if key != "consumer_id"} | {
    "lag_trend": "records/s",
    "consumer_id": "member",
}
_CELLS: Final = {
    "lag_seconds": lambda age: None if age is None else f"{age:.1f}",
    "lag_trend": lambda trend: None if trend is None else f"{trend:+.1f}",
}


class GroupLag(NamedTuple):
    """One look; trends are records a second since the look before, by partition."""

    group_id: str
    now_ms: float
    rows: Sequence[PartitionLag]
    trends: dict[TopicPartition, float | None]

    @property
    def total(self) -> int:
        """Of all partitions whose lag is known."""
        return sum(row.lag or 0 for row in self.rows)

    @property
    def oldest_s(self) -> float | None:
        """The age of the oldest record that is next to be read; None if none is known."""
        return max((age for row in self.rows if (age := row.seconds(self.now_ms)) is not None), default=None)


def looks(cluster: Nodes, group: GroupInCluster, *, read_committed: bool) -> Iterator[GroupLag]:
    """A look each time that one is taken."""
    before: dict[TopicPartition, int | None] = {}
    before_ms = 0.0
    while True:
        cluster.deadline.check()
        rows = group.lags(group.described(), read_committed=read_committed)
        at_ms = cluster.clock.monotonic_ms()
        there = {(row.topic, row.partition): row.lag for row in rows}
        trends = {key: lag_trend(before.get(key), lag, at_ms - before_ms) for key, lag in there.items()}
        yield GroupLag(group.group_id, cluster.clock.wall_ms(), rows, trends)
        before, before_ms = there, at_ms


def show_looks(found: Iterator[GroupLag], most: int | None, pause: Callable[[], None]) -> None:
    """Prints the looks, all of them until Ctrl-C; for programs a JSON object on a line for each."""
    try:
        for number, look in enumerate(islice(found, most)):
            if number and not is_json():
                say()
            _print(look, with_trend=most is None)
            if most is None:
                pause()
    except KeyboardInterrupt:
        pass


def _print(look: GroupLag, *, with_trend: bool) -> None:
    oldest = "" if look.oldest_s is None or not look.total else f", the oldest is {look.oldest_s:.1f} s old"
    at = f"{local_time(round(look.now_ms))}  " if with_trend else ""
    if not is_json():
        say(f"{at}{printable(look.group_id)}: {counted(look.total, 'record')} behind{oldest}")
    rows = _rows(look)
    data = {
        "consumer_group_id": look.group_id,
        "total_lag": look.total,
        "max_lag_seconds": look.oldest_s,
        "partitions": rows,
    }
    show(rows, _WITH_TREND if with_trend else _COLUMNS, cells=_CELLS, data=data)


def _rows(look: GroupLag) -> list[dict[str, object]]:
    """In the REST API's names."""
    return [
        {
            "topic_name": row.topic,
            "partition_id": row.partition,
            "consumer_id": row.member and row.member.member_id,
            "client_id": row.member and row.member.client_id,
            "current_offset": row.current_offset,
            "log_end_offset": row.log_end_offset,
            "lag": row.lag,
            "lag_seconds": row.seconds(look.now_ms),
            "next_timestamp_ms": row.next_timestamp_ms,
            "lag_trend": look.trends[row.topic, row.partition],
        }
        for row in look.rows
    ]
