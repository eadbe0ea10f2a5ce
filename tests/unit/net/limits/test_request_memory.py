"""The budget of all unfinished requests of a role: who may have memory, who waits, who gives way."""

from __future__ import annotations

import random

import pytest

from tailrace.net.limits.request_memory import (
    HURRIED_WITHIN_MS,
    OWN_BYTES,
    WHOLE_WITHIN_MS,
    RequestMemory,
    Share,
)

MAX = 64 << 20
SMALL, LARGE = 1 << 20, 16 << 20


class Client:
    """A connection whose bytes come as the test says."""

    def __init__(self, memory: RequestMemory, address: str = "") -> None:
        self.share = Share(memory, self)
        self.share.belongs_to(address)
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


def test_of_one_address_the_first_and_the_last_go_on_by_turns() -> None:
    memory = RequestMemory(MAX)
    holding, *waiting = clients(memory, 7)
    assert holding.begins(40 << 20)
    order = list[int]()
    for number, client in enumerate(waiting):
        assert not client.begins(40 << 20)
        client.memory_granted = lambda number=number: order.append(number)  # type: ignore[method-assign,misc]
    holding.share.keep(0)
    for _ in waiting[1:]:
        waiting[order[-1]].share.keep(0)
    assert order == [0, 5, 1, 4, 2, 3]


def test_the_address_that_has_the_least_goes_on_first() -> None:
    memory = RequestMemory(MAX)
    attackers = [Client(memory, "10.0.0.1") for _ in range(100)]
    for client in attackers:
        client.begins(LARGE)
    honest = Client(memory, "10.0.0.2")
    assert not honest.begins(LARGE)
    attackers[0].share.keep(0)
    assert honest.granted_count == 1
    attackers[1].share.keep(0)
    assert sum(client.granted_count for client in attackers) == 1


def test_small_ones_that_pass_leave_what_becomes_free_to_a_large_one() -> None:
    memory = RequestMemory(MAX)
    small = clients(memory, 64)
    assert all(client.begins(SMALL) for client in small)
    large, *more = clients(memory, 40)
    assert not large.begins(LARGE)
    assert not any(client.begins(SMALL) for client in more)
    for client in small[:23]:
        client.share.keep(0)
    assert not any(client.granted_count for client in (large, *more))
    small[23].share.keep(0)
    assert large.granted_count == 1
    assert sum(client.granted_count for client in more) == 8  # nobody large waits any more


def look(memory: RequestMemory, clients: list[Client], came_bytes: int, passed_ms: float = 1000) -> int:
    """A second in which each of these brings so many bytes; how many gave way at its end."""
    for client in clients:
        client.came += came_bytes
    gone = memory.too_slow(passed_ms)
    for share in gone:
        share.holder.give_way("")
    return len(gone)


def test_the_slow_give_way_once_somebody_waits_and_the_quick_do_not() -> None:
    memory = RequestMemory(MAX)
    slow, quick, waiting = clients(memory, 3)
    for client in (slow, quick):
        client.came = 1000
        assert client.begins(LARGE)
    assert memory.too_slow(1000) == []
    assert not waiting.begins(48 << 20)
    each = int(LARGE * 1000 / WHOLE_WITHIN_MS) + 1
    assert look(memory, [quick], each) == 0  # of one interval that is not enough
    assert look(memory, [quick], each) == 1 and not slow.share.held_bytes
    assert memory.gave_way_count == 1 and waiting.granted_count == 0
    quick.share.keep(0)
    assert waiting.granted_count == 1


def test_one_that_was_slow_for_a_moment_goes_on() -> None:
    memory = RequestMemory(MAX)
    client, waiting = clients(memory, 2)
    client.came = 1000
    assert client.begins(LARGE) and not waiting.begins(48 << 20)
    for second in range(20):
        assert look(memory, [client], 0 if second % 2 else 600_000) == 0


def test_an_address_that_has_much_must_be_quicker_while_another_waits() -> None:
    memory = RequestMemory(MAX)
    much = [Client(memory, "10.0.0.1") for _ in range(3)]
    for client in much:
        client.came = 1000
        assert client.begins(LARGE)
    other, same = Client(memory, "10.0.0.2"), Client(memory, "10.0.0.1")
    assert not same.begins(LARGE)
    each = int(LARGE * 1000 / WHOLE_WITHIN_MS) + 1
    assert [look(memory, much, each) for _ in range(3)] == [0, 0, 0]
    assert not other.begins(LARGE)
    assert [look(memory, much, each) for _ in range(2)] == [0, 3]
    assert other.granted_count == 1
    each = int(LARGE * 1000 / HURRIED_WITHIN_MS) + 1
    assert [look(memory, [other], each) for _ in range(3)] == [0, 0, 0]


@pytest.mark.parametrize("address", ["10.0.0.1", "10.0.0.2"])
@pytest.mark.parametrize("size_bytes", [SMALL, LARGE])
def test_one_that_comes_behind_a_hundred_that_send_nothing_has_its_turn_soon(address: str, size_bytes: int) -> None:
    """It waited for more than a minute."""
    memory = RequestMemory(MAX)
    attackers = [Client(memory, "10.0.0.1") for _ in range(100)]
    for client in attackers:
        client.came = 1000
        client.begins(size_bytes)
    honest = Client(memory, address)
    honest.came = 1000
    assert not honest.begins(LARGE)
    looks = 0
    while not honest.granted_count:
        look(memory, attackers, 100)
        looks += 1
    assert looks <= 4


def test_a_request_that_has_just_begun_and_one_that_is_answered_are_not_judged() -> None:
    memory = RequestMemory(MAX)
    begun, answered, waiting = clients(memory, 3)
    assert begun.begins(LARGE) and answered.begins(LARGE) and not waiting.begins(48 << 20)
    begun.came, answered.came = 900_000, 500
    memory.too_slow(5000)
    begun.came, answered.came = 10, -1  # another request than the last time; a whole one
    assert memory.too_slow(5000) == []
    begun.came = 20
    assert memory.too_slow(5000) == []


@pytest.mark.parametrize("seed", range(30))
def test_whatever_comes_and_goes_the_bound_holds_and_nobody_waits_for_nothing(seed: int) -> None:
    rng, memory = random.Random(seed), RequestMemory(MAX)
    all_clients = [Client(memory, rng.choice(("a", "b", "c"))) for _ in range(20)]
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
