"""Processes of a version before the consumer protocol become those of this one: `group.version` stays as it was.

Coordinators of both versions share the groups meanwhile. Only `tailrace feature upgrade` serves the new protocol.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.group_beats import VERSION, Beats, beat, join, join_classic, make_topic
from support.old_version import NoOldVersion, unpack
from support.raw import Raw, build
from support.tailrace_nodes import TailraceNodes
from support.waiting import until
from tailrace.net.address import Address

CREATE_TOPICS, UNSUPPORTED_VERSION = 19, 35


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[TailraceNodes]:
    """One broker and two coordinators, all of the old version."""
    try:
        old = unpack(tmp_path / "old")
    except NoOldVersion as absent:
        pytest.skip(str(absent))
    settings = {"offsets.topic.num.partitions": "4", "offsets.topic.replication.factor": "1"}
    nodes = TailraceNodes(tmp_path / "data", 1, settings=settings, coordinators=2)
    nodes.environ = dict.fromkeys([f"{role}-{number}" for role, number in (*nodes.services, ("broker", 0))], old)
    with nodes:
        nodes.wait_for_all()
        yield nodes


def connected(nodes: TailraceNodes) -> Raw:
    address = Address.parse(nodes.bootstrap.partition(",")[0])
    return Raw(address.host, address.port, timeout_s=120)


def tool(nodes: TailraceNodes, *arguments: str) -> str:
    command = [sys.executable, "-m", "tailrace.cli", *arguments, "--bootstrap", nodes.bootstrap.partition(",")[0]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(600)
def test_only_the_command_raises_the_feature_of_an_upgraded_cluster(nodes: TailraceNodes) -> None:
    with connected(nodes) as raw:
        topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        raw.ask(build(CREATE_TOPICS, topics=[topic], timeout_ms=60_000, validate_only=False), 5)
        make_topic(raw)
        classics = [join_classic(raw, f"group-{number}", "t") for number in range(8)]
    for role, number in (*nodes.services, ("broker", 0)):
        nodes.environ[f"{role}-{number}"] = {}
        nodes.restart_role(role, number)
        with Beats(nodes.bootstrap.partition(",")[0], connections=1) as beats:
            beats.until_answered(classics)  # in the generation that a coordinator of the old version gave them
    nodes.wait_for_all()
    with connected(nodes) as raw:
        assert raw.ask(beat("new", "m", 0), VERSION).error_code == UNSUPPORTED_VERSION
        tool(nodes, "feature", "upgrade", "group.version=1")
        # Its coordinator hears of it by itself.
        until(lambda: raw.ask(beat("new", "m", 0), VERSION).error_code != UNSUPPORTED_VERSION, "it is served")
        assert join(raw, "new", "m", ["t"]).epoch > 0
