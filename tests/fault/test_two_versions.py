"""An old and a new version of Tailrace in one cluster: role by role to the new one under load, and back again.

A producer sends, a group reads and commits, and transactions commit and abort. Two controllers share a PostgreSQL, so
that one of each version is there for a while. The way back is in the same order: so each role of either version runs
beside every other one of its own version, and of the other. CONTRIBUTING.md says what a change of a message, a metadata
record or a file must keep so that this passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from support.group_reader import GroupReader
from support.load import Load, check, read_all
from support.old_version import NoOldVersion, unpack
from support.postgres import Postgres
from support.replicated import ROUND, create
from support.tailrace_nodes import TailraceNodes
from support.waiting import HUNG_S, until

BROKERS = 3
ROLES = ("controller", "quota", "coordinator", "broker", "gateway")  # docs/upgrades.md


class MixedNodes(TailraceNodes):
    """Each service runs the version that was last set for its role."""

    def __init__(self, folder: Path, old: dict[str, str], metadata_url: str) -> None:
        sockets = ",".join(f"unix:{folder}/run/controller-{n}.sock" for n in range(2))
        shared = {"metadata.url": metadata_url, "controller.quorum.bootstrap.servers": sockets}
        more = {"transaction.state.log.num.partitions": "3"}
        super().__init__(folder, BROKERS, settings=shared | more, gateways=2, coordinators=2)
        self.services.insert(1, ("controller", 1))
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


class Transactions:
    """One transactional id; each `step` commits one transaction and aborts another."""

    RECORDS = 20

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.committed: list[bytes] = []
        self._topic = topic
        self._sent = 0
        settings = {"bootstrap.servers": bootstrap, "transactional.id": "through-the-upgrade"}
        self._producer = Producer(settings)
        self._producer.init_transactions(HUNG_S)

    def step(self) -> None:
        """Returns when the one is committed and the other aborted."""
        until(self._commit, "a transaction is committed")
        self._producer.begin_transaction()
        self._produce([b"aborted"])
        self._producer.abort_transaction(HUNG_S)

    def _commit(self) -> bool:
        values = [b"%d" % (self._sent + n) for n in range(self.RECORDS)]
        self._sent += self.RECORDS
        self._producer.begin_transaction()
        try:
            self._produce(values)
            self._retried_commit()
        except KafkaException as failed:
            if not failed.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction(HUNG_S)
            return False
        self.committed += values
        return True

    def _produce(self, values: list[bytes]) -> None:
        for value in values:
            self._producer.produce(self._topic, value, partition=0)
        self._producer.flush(HUNG_S)

    def _retried_commit(self) -> None:
        try:
            self._producer.commit_transaction(HUNG_S)
        except KafkaException as failed:
            if not failed.args[0].retriable():
                raise
            self._producer.commit_transaction(HUNG_S)


def read_committed(bootstrap: str, topic: str) -> list[bytes]:
    """What a reader at read_committed finds in partition 0, to its end."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "checker", "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes] = []
        while True:
            message = consumer.poll(HUNG_S)
            assert message is not None, f"no end of the partition within {HUNG_S} s"
            if (error := message.error()) is None:
                found.append(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of the old version's processes."""
    try:
        return unpack(tmp_path_factory.mktemp("old"))
    except NoOldVersion as absent:
        pytest.skip(str(absent))


@pytest.fixture
def mixed(old: dict[str, str], tmp_path: Path) -> Iterator[MixedNodes]:
    """All roles in the old version."""
    with Postgres() as database, MixedNodes(tmp_path / "data", old, database.url) as nodes:
        nodes.wait_for_all()
        yield nodes


@pytest.mark.timeout(900)
def test_role_by_role_to_the_new_version_and_back_loses_nothing(mixed: MixedNodes) -> None:
    topic = create(mixed, *ROUND, word="versions", min_insync_replicas="2")
    moved = create(mixed, *ROUND, word="transactions", min_insync_replicas="2")
    group = GroupReader(mixed.bootstrap, topic.name, "through-the-upgrade")
    transactions = Transactions(mixed.bootstrap, moved.name)
    with group, Load(mixed.bootstrap, topic.name) as load:
        for new in (True, False):
            for role in ROLES:
                mixed.replace(role, new=new)
                assert mixed.runs_old(role, 0) is not new
                load.wait_for(300)
                group.wait_for_commit(HUNG_S)
                transactions.step()
    assert load.promised.failed == []
    check(load.promised, read_all(mixed.bootstrap, topic.name))
    assert read_committed(mixed.bootstrap, moved.name) == transactions.committed
