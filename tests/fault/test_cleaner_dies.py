"""kill -9 of the cleaner process and of its broker while a compacted topic is written: no key lost, none comes back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient

from support.children import child_of
from support.load import Load, Promised, read_all
from support.waiting import until
from tailrace.testing import Cluster

KEYS = 97  # as many as Load writes
TOPIC = "compacted"
LOOKS = 200
CONFIGS = {"cleanup.policy": "compact", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.01"}
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(settings={"log.cleaner.backoff.ms": "20"}) as running:
        admin = KafkaAdminClient(bootstrap_servers=running.bootstrap)
        admin.create_topics({TOPIC: {"num_partitions": 1, "replication_factor": 1, "configs": CONFIGS}})
        admin.close()
        yield running


def wait_for_cleaner(cluster: Cluster, but: int | None = None) -> int:
    """Its pid. The broker waits a second before it starts another one, and longer from death to death."""

    def look() -> int | None:
        pid = child_of(cluster.process_id("broker"), "cleaner_process")
        return pid if pid != but else None

    return until(look, "the broker has started a cleaner")


def check_kept(promised: Promised, found: dict[int, list[tuple[int, int]]]) -> None:
    """What survives is where it was acknowledged, and the last of every key is the last that was acknowledged."""
    (rows,) = found.values()
    offsets = [offset for offset, _ in rows]
    assert offsets == sorted(set(offsets))
    acknowledged = promised.acknowledged
    assert all(acknowledged[value] == (0, offset) for offset, value in rows if value in acknowledged)
    last = {value % KEYS: value for _, value in rows}
    newest = {value % KEYS: value for value in sorted(acknowledged)}
    assert {key: value for key, value in last.items() if value in acknowledged} == newest


def test_kill_9_of_cleaner_and_broker_loses_no_key_and_brings_none_back(cluster: Cluster) -> None:
    with Load(cluster.bootstrap, TOPIC) as load:
        killed = None
        for _ in range(2):
            killed = wait_for_cleaner(cluster, but=killed)
            os.kill(killed, signal.SIGKILL)
        wait_for_cleaner(cluster, but=killed)
        for _ in range(2):
            mark = cluster.kill("broker")
            cluster.wait_for("ready", "broker", since=mark)
            wait_for_cleaner(cluster)
        load.wait_for(1000)
    assert load.promised.failed == []
    found = read_all(cluster.bootstrap, TOPIC)
    for _ in range(LOOKS):  # the cleaner has the lowest priority: on a busy machine it takes its time
        check_kept(load.promised, found)
        if len(found[0]) < len(load.promised.acknowledged) / 2:
            return
        found = read_all(cluster.bootstrap, TOPIC)
    raise AssertionError(f"{len(found[0])} of {len(load.promised.acknowledged)} records were not compacted")
