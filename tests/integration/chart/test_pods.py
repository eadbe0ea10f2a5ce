"""The chart's pods, rendered and run here: they find each other, roll under load, and brokers leave in order."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from support.helm import BUILD_S, Manifest, render
from support.load import Load, check, read_all
from support.pods import ROLES, Pods
from support.ports import HOST, free_ports
from support.postgres import Postgres
from support.redis_server import RedisServer
from support.waiting import HUNG_S, until

BROKERS = 4
# kafka-python leaves the sockets of refused connects to the garbage collector, which warns.
pytestmark = [
    pytest.mark.timeout(BUILD_S),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def values_of(port: int, metadata_url: str, quota_url: str, **broker: Any) -> dict[str, Any]:
    return {
        "config": {"offsets.topic.num.partitions": 3, "broker.heartbeat.interval.ms": 300},
        "metadata": {"url": metadata_url},
        "quotaStore": {"url": quota_url},
        "coordinator": {"replicas": 1},
        "quota": {"replicas": 1},
        "gateway": {"port": port, "advertisedHost": HOST},
        "broker": {"replicas": BROKERS, "rackFrom": "label", **broker},
    }


def rendered(port: int, stores: tuple[str, str], **broker: Any) -> list[Manifest]:
    return render(values=values_of(port, *stores, **broker))


@pytest.fixture
def stores() -> Iterator[tuple[str, str]]:
    with Postgres() as database, RedisServer() as redis:
        yield database.url, redis.url


def run(bootstrap: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "tailrace.cli", *arguments, "-b", bootstrap]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=HUNG_S).stdout


def test_pods_roll_under_load_and_a_broker_is_emptied_before_it_goes(stores: tuple[str, str]) -> None:
    port = free_ports(BROKERS)
    bootstrap = f"{HOST}:{port}"
    manifests = rendered(port, stores)
    with Pods(manifests) as pods:
        run(bootstrap, "topic", "create", "rolled", "-p", "4")
        listed = json.loads(run(bootstrap, "broker", "list", "--json"))
        assert [row["rack"] for row in listed] == [f"zone-{n}" for n in range(BROKERS)]
        for pod in pods.pods.values():
            until(partial(pod.probe, "livenessProbe"), f"{pod.name} lives")
        for pod in pods.pods.values():
            pod.execute("tailrace", "health")
        for pod in pods.of("broker"):  # not into the root of a volume, where a file system keeps its lost+found
            assert [path.name for path in (pod.folder / "data").iterdir()] == ["data"]
        with Load(bootstrap, "rolled", delivery_timeout_ms=HUNG_S * 1000) as load:
            load.wait_for(300)
            pods.apply(rendered(port, stores, config={"log.retention.hours": 24}))
            with ThreadPoolExecutor() as everywhere:  # Helm changes all StatefulSets at once
                for rolled in [everywhere.submit(pods.roll, role) for role in ROLES]:
                    rolled.result()
            load.wait_for(300)
            pods.apply(rendered(port, stores, replicas=BROKERS - 1))
            pods.run_job("r-tailrace-scale-down")
            assert pods.pods[f"r-tailrace-broker-{BROKERS - 1}"].stop() == 0
            pods.run_job("r-tailrace-scale-down-forget")
            load.wait_for(300)
        assert load.promised.failed == []
        check(load.promised, read_all(bootstrap, "rolled"))
        listed = json.loads(run(bootstrap, "broker", "list", "--json"))
        assert [row["broker_id"] for row in listed] == list(range(BROKERS - 1))
