"""Brokers in the console on a cluster of processes: drained, moved to, elected. What was done is asked afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.browser import WIDE, Window, accessibility
from support.console_actions import Rest, cli, done, twin
from support.ports import free_ports
from support.waiting import until
from tailrace.testing import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"auto.leader.rebalance.enable": "false"}
    folder = tmp_path_factory.mktemp("brokers")
    with Cluster(brokers=2, port=free_ports(2), data_dir=folder, settings=settings) as started:
        yield started


@pytest.fixture
def window(browser: Any, cluster: Cluster) -> Iterator[Window]:
    opened = Window(browser, cluster.admin.removeprefix("http://"), WIDE)
    yield opened
    opened.close()
    assert opened.complaints == []


def replicas(rest: Rest, topic: str, partition: int = 0) -> list[int]:
    return list(rest.get(f"topics/{topic}/partitions/{partition}")["replica_ids"])


def test_a_partition_is_moved_and_its_old_leader_drained_and_leaders_elected(window: Window, cluster: Cluster) -> None:
    cluster.create_topic("moved", 1, replicas=1)
    rest = Rest(cluster)
    (here,) = replicas(rest, "moved")
    other = 1 - here

    page = window.go("topics/moved")
    window.row("Partitions", str(here))
    page.get_by_role("button", name="Reassign").click()
    page.get_by_label("Replicas", exact=True).fill(str(here))
    page.get_by_text("These are its replicas now.").wait_for()
    assert page.get_by_role("button", name="Begin to move").is_disabled()
    page.get_by_label("Replicas", exact=True).fill("7")
    page.get_by_text("7 is not a live broker.").wait_for()
    page.get_by_label("Replicas", exact=True).fill(f"{other}, {here}")
    by_cli = twin(window, "CLI")
    assert accessibility(page) == []
    page.get_by_role("button", name="Begin to move").click()
    done(window, "The reassignment of moved-0 has begun.")
    until(lambda: set(replicas(rest, "moved")) == {0, 1} or None, "two replicas")
    until(lambda: rest.get("topics/moved/partitions/0/reassignment") is None or None, "the end of the move")

    until(lambda: len(rest.get("topics/moved/partitions/0")["in_sync_replica_ids"]) == 2 or None, "both in sync")
    page = window.go("brokers")
    led = rest.get("topics/moved/partitions/0")["leader_id"]
    page.get_by_role("button", name="Elect preferred leaders").click()
    assert twin(window, "CLI") == "tailrace elect-leaders"
    page.get_by_role("button", name="Elect", exact=True).click()
    page.locator(".toast").get_by_text("given back to" if led != other else "No election was needed.").wait_for()
    assert rest.get("topics/moved/partitions/0")["leader_id"] == other

    page = window.go(f"brokers/{other}")
    page.get_by_role("button", name="Drain").click()
    assert twin(window, "CLI") == f"tailrace broker drain {other}"
    page.get_by_label("one replica fewer").check()
    assert twin(window, "CLI") == f"tailrace broker drain {other} --shrink"
    page.get_by_role("button", name="Begin to drain").click()
    done(window, f"The drain of broker {other} has begun.")
    page.get_by_text("It holds no partition.", exact=True).wait_for()
    assert rest.get(f"brokers/{other}/partition-replicas")["data"] == []
    assert page.get_by_role("button", name="Drain").is_disabled()
    assert page.get_by_role("button", name="Unregister").is_disabled(), "it runs"

    cli(cluster, by_cli)  # back, by the command that the page has shown
    until(lambda: set(replicas(rest, "moved")) == {0, 1} or None, "two replicas")
    cluster.delete_topic("moved")
