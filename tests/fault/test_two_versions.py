"""An old and a new version of Tailrace in one cluster: role by role to the new one under load, and back again.

A role that was replaced proves its version by the folder from which it loaded its code. CONTRIBUTING.md says what a
change of a message, a metadata record or a file must keep so that this passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer

from support.load import Load, check, read_all
from support.old_version import unpack
from support.replicated import create
from support.tailrace_nodes import TailraceNodes
from support.waiting import until

BROKERS = 3
ROLES = ("controller", "quota", "coordinator", "broker", "gateway")  # docs/operations.md, "Upgrade"


class MixedNodes(TailraceNodes):
    """Each service runs the version that was last set for its role."""

    def __init__(self, folder: Path, old: dict[str, str]) -> None:
        super().__init__(folder, BROKERS, gateways=2, coordinators=2)
        self._old = old
        for role, number in (*self.services, *(("broker", node) for node in self.ids)):
            self.environ[f"{role}-{number}"] = old

    def replace(self, role: str, *, new: bool) -> None:
        """Stops and starts a role's services one by one, in the other version."""
        numbers = self.ids if role == "broker" else [n for kind, n in self.services if kind == role]
        for number in numbers:
            self.environ[f"{role}-{number}"] = {} if new else self._old
            self.restart_role(role, number)
            if role == "broker":
                self.wait_for_all()

    def runs_old(self, role: str, number: int) -> bool:
        """Where the process found its code."""
        pid = self.process_id(f"{role}-{number}")
        return self._old["PYTHONPATH"] in Path(f"/proc/{pid}/environ").read_text()


class GroupReader:
    """A group with one member that commits what it has read; asked now and then."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.seen: set[int] = set()
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id="through-the-upgrade",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            retry_backoff_ms=50,
        )

    def read_more(self) -> None:
        """Reads until something new came, and commits it."""
        before = len(self.seen)

        def came() -> bool:
            for rows in self._consumer.poll(timeout_ms=500).values():
                self.seen |= {int(row.value) for row in rows}
            return len(self.seen) > before

        until(came, "the group reads on", 60)
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[MixedNodes]:
    """All roles in the old version."""
    with MixedNodes(tmp_path / "data", unpack(tmp_path / "old")) as nodes:
        nodes.wait_for_all()
        yield nodes


@pytest.mark.timeout(600)
def test_role_by_role_to_the_new_version_and_back_loses_nothing(mixed: MixedNodes) -> None:
    topic = create(mixed, [0, 1, 2], [1, 2, 0], [2, 0, 1], word="versions", min_insync_replicas="2")
    group = GroupReader(mixed.bootstrap, topic.name)
    with Load(mixed.bootstrap, topic.name) as load:
        for new in (True, False):
            for role in ROLES:
                mixed.replace(role, new=new)
                assert mixed.runs_old(role, 0) is not new
                load.wait_for(300)
                group.read_more()
    group.close()
    assert load.promised.failed == []
    found = read_all(mixed.bootstrap, topic.name)
    check(load.promised, found)
