"""Seeded hostile requests of every API, by every door of a cluster: nobody else is refused, and no role ends.

`./test abuse --seed 7 --requests 5000` sends others, and more.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.abuse import Client, Seen, Watch, create_on_each, create_topics, split_address
from support.hostile import TOPICS, Hostile
from support.hostile_clients import Address, send_all
from support.ports import free_ports
from support.waiting import HUNG_S
from tailrace.testing import Cluster

# Of any role, whatever was sent before; a quiet one has 35 to 60 MB.
MOST_MB = 400
SETTINGS = {
    "gateway.advertise": "brokers",
    "offsets.topic.num.partitions": "8",
    # A busy machine may need more than 5 s to replicate a shard's barrier behind hundreds of new topics.
    "offsets.commit.timeout.ms": str(HUNG_S * 1000),
}


@pytest.fixture(params=[1, 3])
def brokers(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def members(brokers: int) -> Iterator[Cluster]:
    """Clients may come to the gateway's ports and to the brokers' own."""
    with Cluster(brokers=brokers, port=free_ports(brokers), settings=SETTINGS) as running:
        with Client(running) as client:
            assert client.answer(create_on_each("probed", brokers))
            assert client.answer(create_topics(TOPICS, 3))
        yield running


def doors(cluster: Cluster, brokers: int) -> list[Address]:
    host, port = split_address(cluster.bootstrap.partition(",")[0])
    own = [cluster.addresses("broker", node)["client"].partition(",")[0] for node in range(brokers)]
    return [*((host, port + node) for node in range(brokers)), *map(split_address, own)]


def test_others_go_on_whatever_is_asked(
    members: Cluster, brokers: int, found: list[Seen], seed: int, requests: int
) -> None:
    watch = Watch(members, "probed", brokers)
    with watch.over(f"{requests} requests of seed {seed} to {brokers} brokers") as seen:
        became = send_all(doors(members, brokers), Hostile(seed), seed, requests)
    found.append(seen)
    assert became["answered"] > requests / 4
    assert (seen.died, seen.errors, seen.complaints) == ([], [], [])
    assert {role: peak for role, peak in seen.peaks_mb.items() if peak > MOST_MB} == {}
