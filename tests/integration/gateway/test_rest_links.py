"""The links of every answer of the REST API, on a cluster with data; and ids that no path would hold as they are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from kafka import KafkaProducer

from support.ports import free_ports
from support.rest_links import dead, followed
from support.subscribing import subscribed
from support.waiting import HUNG_S
from tailrace.testing import Cluster

GROUP, CLIENT = "a/group 100%", "a/client"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"offsets.topic.num.partitions": "2"}
    folder = tmp_path_factory.mktemp("linked")
    with Cluster(brokers=2, port=free_ports(2), data_dir=folder, settings=settings) as started:
        yield started


def ask(url: str) -> tuple[int, Any]:
    try:
        with urlopen(url, timeout=HUNG_S) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())


def is_another_config(place: str) -> bool:
    """There are hundreds, and all are made alike."""
    return "/configs/" in place and not place.endswith(("/retention.ms", "/message.max.bytes"))


def test_no_link_of_any_answer_is_dead(cluster: Cluster) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
    producer.send("linked", b"x").get(HUNG_S)
    producer.close()
    consumer = subscribed(
        "linked",
        bootstrap_servers=cluster.bootstrap,
        group_id=GROUP,
        client_id=CLIENT,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=HUNG_S * 1000,
    )
    next(consumer)
    consumer.commit()

    async def get(url: str) -> tuple[int, Any]:
        return await asyncio.to_thread(ask, url)

    try:
        clusters = f"{cluster.admin}/v3/clusters"
        root = f"{clusters}/{ask(clusters)[1]['data'][0]['cluster_id']}"
        unlinked = [
            f"{root}/{place}" for place in ("status", "remove-broker-tasks", "topics/linked/partitions/0/producers")
        ]
        found = asyncio.run(followed(get, clusters, *unlinked, leave_out=is_another_config))
    finally:
        consumer.close()
    assert dead(found) == {}
    assert any("/consumers/a%2Fclient" in place and "/assignments/linked/partitions/0" in place for place in found)
    assert f"{root}/consumer-groups/a%2Fgroup%20100%25/lags/linked/partitions/0" in found
