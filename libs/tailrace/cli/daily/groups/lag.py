"""`tailrace group lag`: looks at a group's lag, once or again and again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from tailrace.cli.daily.connection import counted, local_time, say, table
from tailrace.cli.daily.groups.cluster import GroupInCluster
from tailrace.cli.daily.nodes import Nodes
from tailrace.kafka.ids import TopicPartition
from tailrace.kafka.lag import PartitionLag, lag_trend
from tailrace.printable import printable


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


def show(found: Iterator[GroupLag], most: int | None, pause: Callable[[], None], *, as_data: bool) -> None:
    """Prints the looks, all of them until Ctrl-C; as_data: a JSON object on a line for each."""
    try:
        for number, look in enumerate(islice(found, most)):
            if as_data:
                say(json.dumps(_data(look)))
            else:
                if number:
                    say()
                _print(look, with_trend=most is None)
            if most is None:
                pause()
    except KeyboardInterrupt:
        pass


def _print(look: GroupLag, *, with_trend: bool) -> None:
    oldest = "" if look.oldest_s is None or not look.total else f", the oldest is {look.oldest_s:.1f} s old"
    at = f"{local_time(round(look.now_ms))}  " if with_trend else ""
    say(f"{at}{printable(look.group_id)}: {counted(look.total, 'record')} behind{oldest}")
    trend_head = ("records/s",) if with_trend else ()
    rows: list[tuple[object, ...]] = []
    for row in look.rows:
        seconds, trend = row.seconds(look.now_ms), look.trends[row.topic, row.partition]
        cells = (
            row.topic,
            row.partition,
            row.current_offset,
            row.log_end_offset,
            row.lag,
            None if seconds is None else f"{seconds:.1f}",
            *((None if trend is None else f"{trend:+.1f}",) if with_trend else ()),
            row.member and row.member.member_id,
        )
        rows.append(tuple("-" if cell is None else cell for cell in cells))
    table(("topic", "partition", "committed", "end offset", "lag", "seconds", *trend_head, "member"), rows)


def _data(look: GroupLag) -> dict[str, object]:
    """In the REST API's names."""
    return {
        "consumer_group_id": look.group_id,
        "total_lag": look.total,
        "max_lag_seconds": look.oldest_s,
        "partitions": [
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
        ],
    }
