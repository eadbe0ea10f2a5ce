"""What waits at a partition for an offset is completed in order of the offsets, and takes no memory once it is done."""

from __future__ import annotations

import sys
from typing import Any

from tailrace.errors import ErrorCode
from tailrace_broker.waiting.offset_queue import OffsetQueue
from tailrace_broker.waiting.operation import DelayedOperation


class Key:
    """One of the appends of an operation."""

    def __init__(self) -> None:
        self.error_code: int = ErrorCode.NONE


class Connection:
    """Counts its flushes."""

    def __init__(self) -> None:
        self.flushes = 0

    def flush(self) -> None:
        self.flushes += 1


class Operation(DelayedOperation):
    """Done when each of its keys has its outcome."""

    def __init__(self, keys: int = 1, connection: Connection | None = None) -> None:
        super().__init__(connection)
        self.open = [Key() for _ in range(keys)]
        self.completed: list[Key] = []

    def try_complete(self, key: Any) -> None:
        assert not self.done
        self.completed.append(key)
        self.done = len(self.completed) == len(self.open)

    def expire(self) -> None:
        self.done = True


def lined_up(queue: OffsetQueue, *offsets: int, connection: Connection | None = None) -> list[Operation]:
    operations = [Operation(connection=connection) for _ in offsets]
    for operation, offset in zip(operations, offsets, strict=True):
        queue.line_up(offset, operation, operation.open[0])
    return operations


def test_an_offset_completes_what_needs_no_more_in_their_order() -> None:
    queue = OffsetQueue()
    third, seventh, fifth, eighth = lined_up(queue, 3, 7, 5, 8)
    assert [needed for needed, _, _ in queue] == [3, 5, 7, 8]
    queue.reach(2)
    assert not third.done
    queue.reach(5)
    assert [one.done for one in (third, fifth, seventh, eighth)] == [True, True, False, False]
    assert [needed for needed, _, _ in queue] == [7, 8]


def test_a_connection_is_flushed_once_for_all_that_is_done_and_not_for_what_is_half_done() -> None:
    queue, connection, other = OffsetQueue(), Connection(), Connection()
    lined_up(queue, 1, 2, 3, connection=connection)
    half = Operation(2, other)
    for offset, key in zip((3, 9), half.open, strict=True):
        queue.line_up(offset, half, key)
    queue.reach(3)
    assert (connection.flushes, other.flushes, half.completed) == (1, 0, half.open[:1])
    queue.reach(9)
    assert (connection.flushes, other.flushes, half.done) == (1, 1, True)


def test_a_refusal_reaches_all_and_an_offset_can_be_reached_in_vain() -> None:
    queue = OffsetQueue()
    (few, refused), late = lined_up(queue, 1, 9), lined_up(queue, 5)[0]
    late.expire()
    queue.reach(1, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    queue.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    codes = [operation.open[0].error_code for operation in (few, refused, late)]
    assert codes == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]
    assert not queue and late.completed == []


def test_what_ran_out_of_time_behind_a_long_wait_goes() -> None:
    """A high watermark stands still for an hour, and clients come with short timeouts, again and again."""
    queue, longest = OffsetQueue(), 0
    (stuck,) = lined_up(queue, 1)
    for offset in range(2, 20_000):
        (brief,) = lined_up(queue, offset)
        brief.expire()
        longest = max(longest, len(queue))
    assert longest < 1000 and queue[0][1] is stuck


def test_nothing_is_lost_and_the_order_stays_while_others_go() -> None:
    queue, waiting = OffsetQueue(), list[tuple[int, Operation]]()
    for offset in range(5000):
        (operation,) = lined_up(queue, offset)
        if offset % 3:
            operation.expire()
        else:
            waiting.append((offset, operation))
    assert [(needed, operation) for needed, operation, _ in queue if not operation.done] == waiting
    queue.reach(5000)
    assert all(operation.done for _, operation in waiting)


def test_an_empty_queue_takes_little() -> None:
    """Every partition has three, and a broker tens of thousands of partitions that are idle."""
    assert sys.getsizeof(OffsetQueue()) <= 96
