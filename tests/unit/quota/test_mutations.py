"""Controller mutations (KIP-599), as Apache Kafka 4.3.1 counted them on a rate of one a second."""

import pytest

from tailrace.quota.entity import ClientQuotas
from tailrace.quota.mutations import MutationQuota, MutationQuotas

BURST_MS = 11_000.0


class World:
    def __init__(self, rate: float = 1.0, max_entries: int = 10) -> None:
        self.now_ms = 0.0
        self.quotas = ClientQuotas({(("client-id", None),): {"controller_mutation_rate": rate}})
        self.mutations = MutationQuotas(BURST_MS, 15_000, max_entries, lambda: self.now_ms)

    def of(self, client_id: str = "c", *, strict: bool = True) -> MutationQuota:
        return self.mutations.of(self.quotas, "u", client_id, strict=strict)


def test_a_strict_request_is_refused_what_finds_the_bucket_in_debt() -> None:
    world = World()
    quota = world.of()
    assert [quota.take(5) for _ in range(5)] == [True, True, True, False, False]
    assert quota.throttle_time_ms == 4000  # 11 of burst, 15 taken
    world.now_ms = 4000
    assert world.of().take(1) and world.of().throttle_time_ms == 1000


def test_a_permissive_request_is_taken_and_throttled() -> None:
    quota = World().of(strict=False)
    assert quota.take(14) and quota.throttle_time_ms == 3000
    assert quota.take(10) and quota.throttle_time_ms == 13_000


def test_a_throttle_has_an_upper_bound_and_the_debt_stays() -> None:
    world = World()
    assert world.of().take(1000) and world.of().throttle_time_ms == 15_000
    world.now_ms = 15_000
    assert not world.of().take(1)


def test_clients_without_a_rate_are_never_throttled() -> None:
    quota = MutationQuotas(BURST_MS, 15_000, 10, lambda: 0.0).of(ClientQuotas(), "u", "c", strict=True)
    assert quota.take(10_000) and quota.throttle_time_ms == 0


def test_each_client_id_has_a_bucket_and_a_user_one_for_all() -> None:
    world = World()
    world.of("a").take(100)
    assert world.of("b").take(1) and not world.of("a").take(1)
    world.quotas = ClientQuotas({(("user", "u"),): {"controller_mutation_rate": 1.0}})
    world.of("a").take(100)
    assert not world.of("b").take(1)


@pytest.mark.parametrize("rate", [0.5, 4.0])
def test_a_changed_rate_keeps_the_debt(rate: float) -> None:
    world = World()
    world.of().take(13)
    world.quotas = ClientQuotas({(("client-id", "c"),): {"controller_mutation_rate": rate}})
    assert world.of().throttle_time_ms == 2000 / rate


def test_the_number_of_buckets_is_bounded() -> None:
    world = World(max_entries=2)
    for name in ("a", "b", "a", "c"):
        world.of(name).take(100)
    assert len(world.mutations) == 2
    assert not world.of("a").take(1) and world.of("b").take(1)
