"""The budget of all unfinished requests of a role: who may have memory, who waits, who gives way."""

from __future__ import annotations

import random

import pytest

from tailrace.net.limits.request_memory import OWN_BYTES, WHOLE_WITHIN_MS, RequestMemory, Share

MAX = 64 << 20
SMALL, LARGE = 1 << 20, 16 << 20


class Client:
    """A connection whose bytes come as the test says."""

    def __init__(self, memory: RequestMemory) -> None:
        self.share = Share(memory, self)
        self.came = -1
        self.idle = False
        self.granted_count = 0

    def memory_granted(self) -> None:
        self.granted_count += 1

    def reclaim_memory(self) -> None:
        if self.idle:
            self.share.keep(0)

    def torn_bytes(self) -> int:
        return self.came

    def give_way(self, why: str) -> None:
        self.share.keep(0)

    def begins(self, size_bytes: int) -> bool:
        """A request of that size beyond what a connection has of its own."""
        return self.share.take(size_bytes + OWN_BYTES)


def clients(memory: RequestMemory, count: int) -> list[Client]:
    return [Client(memory) for _ in range(count)]


def test_what_a_connection_has_of_its_own_needs_no_room() -> None:
    memory = RequestMemory(0)
    assert all(client.share.take(OWN_BYTES) for client in clients(memory, 100))
    assert memory.used_bytes == 0


def test_a_hundred_half_sent_requests_stay_inside_and_the_rest_waits() -> None:
    memory = RequestMemory(MAX)
    begun = [client.begins(LARGE) for client in clients(memory, 100)]
    assert sum(begun) == 3 and memory.used_bytes == 3 * LARGE <= MAX
    assert memory.waiting_count == memory.waited_count == 97


def test_small_requests_pass_large_ones_that_wait() -> None:
    memory = RequestMemory(MAX)
    for client in clients(memory, 100):
        client.begins(LARGE)
    assert all(client.begins(SMALL) for client in clients(memory, 8))


def test_large_ones_go_on_in_their_order_and_a_later_one_does_not_pass() -> None:
    memory = RequestMemory(MAX)
    first, second, third = clients(memory, 3)
    assert first.begins(40 << 20)
    assert not second.begins(40 << 20)
    assert not third.begins(10 << 20)  # there would be room
    first.share.keep(0)
    assert (second.granted_count, third.granted_count) == (1, 1)
    assert memory.used_bytes == 50 << 20


def test_a_request_larger_than_the_budget_comes_alone() -> None:
    memory = RequestMemory(MAX)
    large, other = clients(memory, 2)
    assert large.begins(2 * MAX)
    assert not other.begins(SMALL)
    large.share.keep(0)
    assert other.granted_count == 1


def test_without_a_bound_nobody_waits() -> None:
    memory = RequestMemory(-1)
    assert all(client.begins(LARGE) for client in clients(memory, 100))


def test_buffers_that_nobody_uses_are_given_back_before_anybody_waits() -> None:
    memory = RequestMemory(MAX)
    idle, busy = clients(memory, 2)
    assert idle.begins(48 << 20)
    idle.idle = True
    assert busy.begins(48 << 20) and memory.used_bytes == 48 << 20


def test_room_for_more_is_not_waited_for() -> None:
    memory = RequestMemory(MAX)
    first, second, third = clients(memory, 3)
    assert first.begins(48 << 20)
    assert not second.begins(48 << 20)
    assert not third.share.take_if_free(SMALL + OWN_BYTES) and not third.share.waits


def test_the_slow_give_way_once_somebody_waits_and_the_quick_do_not() -> None:
    memory = RequestMemory(MAX)
    slow, quick, waiting = clients(memory, 3)
    for client in (slow, quick):
        assert client.begins(LARGE)
        client.came = 1000
    assert memory.too_slow(5000) == []
    assert not waiting.begins(48 << 20)
    assert memory.too_slow(5000) == []  # of this interval nothing is known yet
    quick.came += int(LARGE * 5000 / WHOLE_WITHIN_MS) + 1
    slow.came += 4096
    assert memory.too_slow(5000) == [slow.share]
    slow.share.holder.give_way("")
    assert memory.gave_way_count == 1 and waiting.granted_count == 0
    quick.share.keep(0)
    assert waiting.granted_count == 1


def test_a_request_that_has_just_begun_and_one_that_is_answered_are_not_judged() -> None:
    memory = RequestMemory(MAX)
    begun, answered, waiting = clients(memory, 3)
    assert begun.begins(LARGE) and answered.begins(LARGE) and not waiting.begins(48 << 20)
    begun.came, answered.came = 900_000, 500
    memory.too_slow(5000)
    begun.came, answered.came = 10, -1  # another request than the last time; a whole one
    assert memory.too_slow(5000) == []


@pytest.mark.parametrize("seed", range(30))
def test_whatever_comes_and_goes_the_bound_holds_and_nobody_waits_for_nothing(seed: int) -> None:
    rng, memory = random.Random(seed), RequestMemory(MAX)
    all_clients = clients(memory, 20)
    for _ in range(400):
        client = rng.choice(all_clients)
        if client.share.held_bytes or client.share.waits:
            client.share.keep(0)
        else:
            client.begins(int(2 ** rng.uniform(10, 26.5)))
        held = [one.share.held_bytes for one in all_clients]
        assert memory.used_bytes == sum(held)
        assert memory.used_bytes <= MAX or sum(map(bool, held)) == 1
        assert memory.waiting_count == sum(one.share.waits for one in all_clients)
        assert memory.used_bytes or not memory.waiting_count
    for client in all_clients:
        client.share.keep(0)
    while any(one.share.held_bytes for one in all_clients):
        for one in all_clients:
            if one.share.held_bytes:
                one.share.keep(0)
    assert not memory.waiting_count and not memory.used_bytes
