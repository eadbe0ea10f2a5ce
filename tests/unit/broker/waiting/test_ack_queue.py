"""Who waits at a partition for its high watermark takes no memory once he has his answer."""

from tailrace_broker.waiting.ack_queue import AckQueue


class Waiter:
    """A request."""

    def __init__(self) -> None:
        self.done = False


def test_offsets_never_go_back() -> None:
    queue = AckQueue()
    for needed in (3, 7, 5, 8):
        queue.line_up(needed, (Waiter(), None))
    assert [needed for needed, _ in queue] == [3, 7, 7, 8]


def test_who_ran_out_of_time_behind_a_long_wait_goes() -> None:
    """A high watermark stands still for an hour, and clients come with short timeouts, again and again."""
    queue, stuck, longest = AckQueue(), Waiter(), 0
    queue.line_up(1, (stuck, None))
    for offset in range(2, 20_000):
        brief = Waiter()
        queue.line_up(offset, (brief, None))
        brief.done = True
        longest = max(longest, len(queue))
    assert longest < 1000 and queue[0] == (1, (stuck, None))


def test_nobody_is_lost_and_the_order_stays_while_others_go() -> None:
    queue, waiting = AckQueue(), list[tuple[int, Waiter]]()
    for offset in range(5000):
        waiter = Waiter()
        queue.line_up(offset, (waiter, None))
        if offset % 3:
            waiter.done = True
        else:
            waiting.append((offset, waiter))
    assert [(needed, waiter) for needed, (waiter, _) in queue if not waiter.done] == waiting
