"""Consume, transform, produce while everything is killed, stopped and cut off in turn: each input has its effect once.

TAILRACE_TRANSACTION_FAULT_SECONDS=180 goes on with faults in random order for so long;
TAILRACE_TRANSACTION_FAULT_SEED chooses the order.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support import hosts
from support.exactly_once import SETTINGS, ExactlyOnce
from support.hosts import Network
from support.ports import free_ports
from support.tailrace_nodes import TailraceNodes
from tailrace.net.authentication.secret_file import NAME, make_secret
from tailrace.testing import Cluster

SECONDS = int(os.environ.get("TAILRACE_TRANSACTION_FAULT_SECONDS", "0"))
SEED = int(os.environ.get("TAILRACE_TRANSACTION_FAULT_SEED", "1"))
KILLED = (("coordinator", 0), ("broker", 1), ("gateway", 0), ("coordinator", 1), ("controller", 0))
PAUSED = (("coordinator", 0), ("broker", 2))
pytestmark = pytest.mark.timeout(600 + 3 * SECONDS)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three brokers, two gateways, two coordinators; who dies comes back by itself. Clients' links can be cut."""
    arguments = ["--coordinators", "2"]
    with Cluster(
        brokers=3, gateways=2, port=free_ports(4), arguments=arguments, settings=SETTINGS, proxied=True
    ) as running:
        yield running


def kill(cluster: Cluster, role: str, number: int) -> None:
    mark = cluster.kill(role, number)
    cluster.wait_for("ready", role, number, since=mark)


def pause(cluster: Cluster, world: ExactlyOnce, role: str, number: int) -> None:
    with cluster.paused(role, number):
        world.go_on()


def cut(cluster: Cluster, how: str, node: int | None, role: str, number: int) -> None:
    """Clients reach nobody at this node's address while a role dies and comes back."""
    with getattr(cluster.network, how)(node):
        kill(cluster, role, number)


def all_faults(cluster: Cluster, world: ExactlyOnce) -> dict[str, Callable[[], Any]]:
    """By name; each returns when what it broke is whole again, or will be by itself."""
    roles = [("coordinator", 2), ("broker", 3), ("gateway", 2), ("controller", 1)]
    numbered = [(role, number) for role, count in roles for number in range(count)]
    found: dict[str, Callable[[], Any]] = {"clients killed": world.kill_clients, "abandoned": world.abandon}
    for role, number in numbered:
        found[f"{role} {number} killed"] = partial(kill, cluster, role, number)
        found[f"{role} {number} paused"] = partial(pause, cluster, world, role, number)
    for how in ("cut", "hang"):
        for node in (None, 0, 1, 2):
            role, number = ("coordinator", 0) if node is None else ("broker", node)
            found[f"links of {node} {how}"] = partial(cut, cluster, how, node, role, number)
    return found


def test_each_input_has_its_effect_once_whatever_is_killed(cluster: Cluster) -> None:
    with ExactlyOnce(cluster.bootstrap) as world:
        faults = all_faults(cluster, world)
        order = [
            "abandoned",
            *(f"{role} {number} killed" for role, number in KILLED),
            "clients killed",
            *(f"{role} {number} paused" for role, number in PAUSED),
            "links of None cut",
            "links of 1 hang",
        ]
        for name in order:
            with world.fault(name):
                faults[name]()
        chosen, end = random.Random(SEED), time.monotonic() + SECONDS
        while time.monotonic() < end:
            name = chosen.choice(sorted(faults))
            with world.fault(name):
                faults[name]()
    world.check()
    tell(world)


def tell(world: ExactlyOnce) -> None:
    """The figures, for a run with -s."""
    times = sorted(one or 0 for _, _, one in world.open_times())
    longest = ", ".join(f"{name} {took_ms:.0f} ms" for took_ms, name in sorted(world.faults, reverse=True)[:5])
    lives, stuck = (sum(getattr(loop, name) for loop in world.loops) for name in ("lives", "stuck"))
    print(f"\n{len(world.faults)} faults, {world.inputs} inputs of each loop, {lives} lives ({stuck} stuck)")
    print(f"the longest: {longest}")
    print(f"{len(times)} transactions in partitions, open for {times[len(times) // 2]} ms (median) to {times[-1]} ms")


@pytest.fixture(scope="module")
def cables() -> Iterator[tuple[TailraceNodes, Network]]:
    """Brokers (hosts 0 to 2) and coordinators (3, 4) have a network namespace each; all else is with the clients."""
    if absent := hosts.missing():
        pytest.skip(absent)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cables-", ignore_cleanup_errors=True)))
        network = stack.enter_context(Network(5))
        controller = f"{network.here}:{free_ports(1)}"
        make_secret(folder)
        shared = {"controller.quorum.bootstrap.servers": controller, "internal.secret.file": str(folder / NAME)}
        nodes = TailraceNodes(folder / "data", settings={**SETTINGS, **shared}, coordinators=2)
        for role, number in nodes.services:
            nodes.own_settings[f"{role}-{number}"] = {"internal.listen": network.here}
        nodes.own_settings["controller-0"] = {"internal.listen": controller}
        far = [*(f"broker-{n}" for n in range(3)), "coordinator-0", "coordinator-1"]
        for host, name in enumerate(far):
            nodes.own_settings[name] = {"internal.listen": network.address(host)}
            nodes.prefixes[name] = network.prefix(host)
        with nodes:
            nodes.wait_for_all()
            yield nodes, network


def test_each_input_has_its_effect_once_whatever_cable_is_cut(cables: tuple[TailraceNodes, Network]) -> None:
    """A cable stays cut until all loops go on: others lead and coordinate, and what is cut off is a zombie."""
    nodes, network = cables
    with ExactlyOnce(nodes.bootstrap) as world:
        faults: dict[str, Callable[[], Any]] = {
            "coordinator 0 cut off": partial(network.cut, 3),
            "broker 1 cut off": partial(network.cut, 1),
            "coordinator 1 mute": partial(network.mute, 4),
            "broker 2 deaf": partial(network.deafen, 2),
            "brokers 0 and 1 apart": partial(network.part, 0, 1),
        }
        for name, fault in faults.items():
            with world.fault(name):
                fault()
                world.kill_clients()
                world.go_on()
                network.heal()
    world.check()
    tell(world)
