"""A figure that SQL, the REST API and the command line show is the same in all three."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest
import sqlalchemy as sa
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from support.ports import free_ports
from support.waiting import HUNG_S, until
from tailrace.testing import Cluster

TOPIC, GROUP = "counted", "counters"
COMMITTED = {0: 3, 1: 94, 2: 6, 3: 0}  # behind, beyond the end, at the end, of an empty partition
QUOTAS = {"<default>": 1000.0, None: 2000.0, "a, user=b": 3000.0}
Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"offsets.topic.num.partitions": "2"}
    folder = tmp_path_factory.mktemp("figures")
    with Cluster(port=free_ports(1), data_dir=folder, settings=settings) as started:
        started.create_topic(TOPIC, 4)
        producer = KafkaProducer(bootstrap_servers=started.bootstrap)
        for partition in (0, 1, 2):
            for _ in range(6):
                producer.send(TOPIC, b"x", partition=partition).get(HUNG_S)
        producer.close()
        commit(started, COMMITTED)
        yield started


def commit(cluster: Cluster, offsets: dict[int, int], topic: str = TOPIC, group: str = GROUP) -> None:
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id=group, enable_auto_commit=False)
    partitions = {TopicPartition(topic, n): OffsetAndMetadata(offset, "", -1) for n, offset in offsets.items()}
    consumer.assign(list(partitions))
    consumer.commit(partitions)
    consumer.close()


def sql(cluster: Cluster, query: str) -> list[Row]:
    engine = sa.create_engine(f"sqlite:///{cluster.data_dir}/metadata.db")
    try:
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(query))]
    finally:
        engine.dispose()


def rest(cluster: Cluster, path: str, body: Any = None) -> Any:
    with urlopen(f"{cluster.admin}/v3/clusters", timeout=HUNG_S) as answer:
        (told,) = json.load(answer)["data"]
    url = f"{cluster.admin}/v3/clusters/{told['cluster_id']}/{path}"
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, {"Content-Type": "application/json"}), timeout=HUNG_S) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def metrics(cluster: Cluster, role: str) -> list[str]:
    running = json.loads((cluster.data_dir / "run" / f"{role}-0.json").read_text())
    with urlopen(f"http://{running['addresses']['http']}/metrics", timeout=HUNG_S) as answer:
        lines: list[str] = answer.read().decode().splitlines()
    return lines


def command(cluster: Cluster, *arguments: str) -> str:
    environ = {**os.environ, "TAILRACE_BOOTSTRAP": cluster.bootstrap}
    line = [sys.executable, "-m", "tailrace.cli", *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=True, env=environ, timeout=HUNG_S).stdout


def test_offsets_and_lag(cluster: Cluster) -> None:
    query = "SELECT partition_id, committed_offset, log_end_offset, lag FROM group_offsets WHERE lag IS NOT NULL"
    query = f"{query} AND group_id = '{GROUP}'"
    in_sql = until(lambda: rows if len(rows := sql(cluster, query)) == len(COMMITTED) else None, "lags in SQL")
    in_rest = [
        tuple(row[key] for key in ("partition_id", "current_offset", "log_end_offset", "lag"))
        for row in rest(cluster, f"consumer-groups/{GROUP}/lags")["data"]
    ]
    printed = command(cluster, "group", "describe", GROUP)
    shown = [tuple(map(int, found)) for found in re.findall(rf"{TOPIC} +(\d+) +(\d+) +(\d+) +(-?\d+)", printed)]
    expected = [(n, offset, 6 if n < 3 else 0, 3 if n == 0 else 0) for n, offset in COMMITTED.items()]
    assert sorted(in_sql) == sorted(in_rest) == sorted(shown) == expected
    summary = rest(cluster, f"consumer-groups/{GROUP}/lag-summary")
    assert (summary["max_lag"], summary["total_lag"]) == (3, 3)


def test_the_age_of_the_next_record(cluster: Cluster) -> None:
    query = "SELECT next_timestamp_ms, lag_seconds FROM group_offsets WHERE partition_id = 0 AND lag_seconds > 0"
    query = f"{query} AND group_id = '{GROUP}'"
    ((timestamp_ms, in_sql),) = until(lambda: sql(cluster, query) or None, "the age in SQL")
    (in_rest, *others) = rest(cluster, f"consumer-groups/{GROUP}/lags")["data"]
    printed = json.loads(command(cluster, "group", "lag", GROUP, "--json"))
    scraped = [name for name in metrics(cluster, "coordinator") if name.startswith("tailrace_group_lag")]
    assert timestamp_ms == in_rest["next_timestamp_ms"] == printed["partitions"][0]["next_timestamp_ms"] > 0
    assert 0 < in_sql < in_rest["lag_seconds"] < printed["max_lag_seconds"] < in_sql + HUNG_S  # it grows meanwhile
    assert (
        [row["lag_seconds"] for row in others] == [row["lag_seconds"] for row in printed["partitions"][1:]] == [0] * 3
    )
    labels = f'{{group="{GROUP}",topic="{TOPIC}"}}'
    assert f"tailrace_group_lag{labels} 3.0" in scraped
    (age,) = [float(line.split()[1]) for line in scraped if line.startswith(f"tailrace_group_lag_seconds{labels}")]
    assert age > in_sql


def test_a_topic_that_is_made_anew_has_no_lag(cluster: Cluster) -> None:
    cluster.create_topic("again", 1)
    commit(cluster, {0: 94}, "again", "remakers")
    shown = "SELECT committed_offset FROM group_offsets WHERE topic = 'again'"
    assert until(lambda: sql(cluster, shown) or None, "the commit in SQL") == [(94,)]
    command(cluster, "topic", "delete", "again", "--yes")
    cluster.create_topic("again", 1)
    until(lambda: not sql(cluster, shown), "no commit in SQL")
    summary = rest(cluster, "consumer-groups/remakers/lag-summary")
    assert (summary["total_lag"], summary["max_lag_topic_name"]) == (0, None)
    printed = json.loads(command(cluster, "group", "lag", "remakers", "--json"))
    assert printed["partitions"] == []


def test_partitions(cluster: Cluster) -> None:
    query = f"SELECT partition_id, leader, replicas, isr FROM partitions WHERE topic = '{TOPIC}'"
    in_sql = [(row[0], row[1], json.loads(row[2]), json.loads(row[3])) for row in sql(cluster, query)]
    shown = [
        (row["partition_id"], row["leader_id"], row["replica_ids"], row["in_sync_replica_ids"])
        for row in json.loads(command(cluster, "topic", "describe", TOPIC, "--json"))
    ]
    assert sorted(in_sql) == sorted(shown)
    ((count, factor),) = sql(cluster, f"SELECT partition_count, replication_factor FROM topics WHERE name = '{TOPIC}'")
    told = rest(cluster, f"topics/{TOPIC}")
    assert (told["partitions_count"], told["replication_factor"]) == (count, factor) == (len(shown), 1)


def test_quotas(cluster: Cluster) -> None:
    changes = [
        {
            "entity": [{"entity_type": "client-id", "entity_name": name}],
            "name": "producer_byte_rate",
            "value": value,
        }
        for name, value in QUOTAS.items()
    ]
    rest(cluster, "quotas:alter", {"data": changes})
    in_sql = {entity: value for entity, value in sql(cluster, "SELECT entity, value FROM quotas")}
    assert in_sql == {
        r"client-id=\<default>": 1000.0,
        "client-id=<default>": 2000.0,
        r"client-id=a\, user=b": 3000.0,
    }
    in_rest = {row["entity"][0]["entity_name"]: row["values"] for row in rest(cluster, "quotas")["data"]}
    assert in_rest == {name: {"producer_byte_rate": value} for name, value in QUOTAS.items()}
    printed = command(cluster, "quota", "list")
    assert [entity.partition("=")[2] in printed for entity in in_sql] == [True] * len(in_sql)
