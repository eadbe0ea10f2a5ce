"""A message of very many rows ends some hundred rows at a time."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from tailrace.net.let_go import empty, let_go
from tailrace.wire.messages import ListOffsetsRequest

_Topic = ListOffsetsRequest.ListOffsetsTopic
_Wanted = _Topic.ListOffsetsPartition


class Row(_Wanted):
    """A row that can be counted."""

    __slots__ = ("__weakref__",)
    __hash__ = object.__hash__


def rows(count: int, alive: WeakSet[Any]) -> list[Any]:
    found = [Row(partition_index=index) for index in range(count)]
    for row in found:
        alive.add(row)
    return found


def test_rows_and_the_rows_inside_them_are_freed() -> None:
    alive: WeakSet[Any] = WeakSet()
    request = ListOffsetsRequest(topics=[_Topic(name=str(n), partitions=rows(7, alive)) for n in range(900)])
    assert len(alive) == 6300
    let_go(request)
    assert request.topics == [] and len(alive) == 0


def test_no_step_frees_more_than_some_hundred_rows() -> None:
    alive: WeakSet[Any] = WeakSet()
    seen: list[int] = []

    class Watched(list[Any]):
        def __delitem__(self, at: Any) -> None:
            super().__delitem__(at)
            seen.append(len(alive))

    request = ListOffsetsRequest(topics=[_Topic(name="t", partitions=Watched(rows(2_100, alive)))])
    empty(request.topics[0].partitions)
    assert seen == [1600, 1100, 600, 100, 0]


def test_what_somebody_else_has_stays_as_it_is() -> None:
    alive: WeakSet[Any] = WeakSet()
    shared = _Topic(name="shared", partitions=rows(600, alive))
    partitions = rows(600, alive)
    request = ListOffsetsRequest(topics=[shared, _Topic(name="t", partitions=partitions)])
    let_go(request)
    assert len(shared.partitions) == 600 and len(partitions) == 600
    topics = [shared]
    let_go(ListOffsetsRequest(topics=topics))
    assert topics == [shared]
