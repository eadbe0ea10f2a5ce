"""Coordinators on hosts of their own: the cable of one is cut, its groups go on with the other, and it comes back."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support import hosts
from support.group_beats import Beats, are_spread, commit, committed, join, join_classic, make_topic
from support.hosts import Network
from support.ports import free_ports
from support.raw import Raw
from support.tailrace_nodes import TailraceNodes
from support.waiting import until
from tailrace.net.address import Address
from tailrace.net.authentication.secret_file import NAME, make_secret
from tailrace.testing import admin

SHARDS = 8
GROUPS = 12  # of each protocol, so that each of the coordinators has some
COORDINATORS = (0, 1)


@pytest.fixture
def cluster() -> Iterator[tuple[TailraceNodes, Network]]:
    """Each coordinator has a network namespace; all other roles are where the clients are."""
    if absent := hosts.missing():
        pytest.skip(absent)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hosts-", ignore_cleanup_errors=True)))
        network = stack.enter_context(Network(len(COORDINATORS)))
        controller = f"{network.here}:{free_ports(1)}"
        make_secret(folder)
        settings = {
            "controller.quorum.bootstrap.servers": controller,
            "internal.secret.file": str(folder / NAME),
            "offsets.topic.num.partitions": str(SHARDS),
            "group.initial.rebalance.delay.ms": "0",
            "broker.session.timeout.ms": "4000",
        }
        nodes = TailraceNodes(folder / "data", 1, settings=settings, coordinators=len(COORDINATORS))
        for role, number in (*nodes.services, ("broker", 0)):
            nodes.own_settings[f"{role}-{number}"] = {"internal.listen": network.here}
        nodes.own_settings["controller-0"] = {"internal.listen": controller}
        for number in COORDINATORS:
            nodes.own_settings[f"coordinator-{number}"] = {"internal.listen": network.address(number)}
            nodes.prefixes[f"coordinator-{number}"] = network.prefix(number)
        with nodes:
            nodes.wait_for_all()
            yield nodes, network


def test_groups_go_on_while_their_coordinator_is_cut_off(cluster: tuple[TailraceNodes, Network]) -> None:
    """A heartbeat in another epoch would be refused, and with it the test: no member is in two generations."""
    nodes, network = cluster
    admin.create_topic(nodes.bootstrap, "t", 1, 1, {})
    address = Address.parse(nodes.bootstrap)
    with Raw(address.host, address.port, timeout_s=120) as raw, Beats(nodes.bootstrap, connections=SHARDS) as beats:
        make_topic(raw)
        members = [join(raw, f"new-{number}", "m", ["t"]) for number in range(GROUPS)]
        members += [join_classic(raw, f"old-{number}", "t") for number in range(GROUPS)]
        until(lambda: are_spread(nodes.folder, COORDINATORS), "each coordinator has its half of the shards")
        beats.until_answered(members)
        commit(raw, members, "t", 1)
        network.cut(0)
        beats.until_answered(members)
        assert committed(raw, members, "t") == [1] * len(members)
        commit(raw, members, "t", 2)
        network.heal()
        until(lambda: are_spread(nodes.folder, COORDINATORS), "the one that was cut off has its half again")
        beats.until_answered(members)
        assert committed(raw, members, "t") == [2] * len(members)
