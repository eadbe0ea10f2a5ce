"""One of two coordinators stops, dies or stands still: its groups go on with the other one, and no member notices."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from support.group_beats import AWAY, Beats, Member, are_spread, commit, committed, join, join_classic, make_topic
from support.ports import free_ports
from support.raw import Raw, build
from support.waiting import until
from tailrace.net.address import Address
from tailrace.testing import Cluster

DESCRIBE_GROUPS, CONSUMER_GROUP_DESCRIBE = 15, 69
SHARDS = 8
GROUPS = 12  # of each protocol, so that each of the coordinators has some
COORDINATORS = (0, 1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"offsets.topic.num.partitions": str(SHARDS), "broker.session.timeout.ms": "4000"}
    with Cluster(port=free_ports(2), arguments=["--coordinators", "2"], settings=settings) as running:
        running.create_topic("t")
        yield running


@pytest.fixture
def raw(cluster: Cluster) -> Iterator[Raw]:
    address = Address.parse(cluster.bootstrap)
    with Raw(address.host, address.port, timeout_s=120) as connection:
        make_topic(connection)
        yield connection


def states(raw: Raw, consumers: list[Member], classics: list[Member]) -> list[tuple[str, ...]]:
    """The state of each group and the number of its members; of a consumer group with its epochs."""

    def told() -> list[tuple[str, ...]] | None:
        new = raw.ask(build(CONSUMER_GROUP_DESCRIBE, group_ids=[each.group_id for each in consumers]), 1).groups
        old = raw.ask(build(DESCRIBE_GROUPS, groups=[each.group_id for each in classics]), 5).groups
        if any(each.error_code in AWAY for each in (*new, *old)):
            return None
        rows = [(each.group_state, len(each.members), each.group_epoch, each.assignment_epoch) for each in new]
        return [tuple(map(str, row)) for row in (*rows, *((each.group_state, len(each.members)) for each in old))]

    return until(told, "the states of all groups")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP], ids=lambda how: how.name)
def test_groups_go_on_without_a_rebalance(cluster: Cluster, raw: Raw, how: signal.Signals) -> None:
    """Each member sends the heartbeat of its epoch, whatever happens; a refusal would be a rebalance."""
    consumers = [join(raw, f"{how.name}-new-{number}", "m", ["t"]) for number in range(GROUPS)]
    classics = [join_classic(raw, f"{how.name}-old-{number}", "t") for number in range(GROUPS)]
    members = [*consumers, *classics]
    before = states(raw, consumers, classics)
    with Beats(cluster.bootstrap, connections=SHARDS) as beats:
        for number in COORDINATORS:
            commit(raw, members, "t", number)
            if how is signal.SIGSTOP:
                with cluster.paused("coordinator", number):
                    beats.until_answered(members)
            else:
                mark = cluster.kill("coordinator", number, how)
                beats.until_answered(members)
                cluster.wait_for("ready", "coordinator", number, since=mark)
            until(lambda: are_spread(cluster.data_dir, COORDINATORS), "each coordinator has its half of the shards")
            beats.until_answered(members)
            assert committed(raw, members, "t") == [number] * len(members)
    assert states(raw, consumers, classics) == before
