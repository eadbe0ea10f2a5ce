"""Which topics ask to be tables."""

from __future__ import annotations

from support.topic_tables import TABLE, TOPIC_ID, JsonCluster
from tailrace.tables.topics import find_topics
from tailrace.tables.worker import TableTopic


async def test_topics_whose_config_says_so_are_tables() -> None:
    cluster = JsonCluster([], [])
    no = {**TABLE, "tailrace.table": "none"}
    cluster.configs = {"b": TABLE, "a": TABLE, "c": no, "may not be seen": {}, "__consumer_offsets": TABLE}
    wanted = [TableTopic(name, TOPIC_ID, 2, 1000) for name in ("a", "b")]
    assert await find_topics(cluster) == wanted
    assert await find_topics(cluster, {"b", "c", "unknown"}) == wanted[1:]


async def test_a_cluster_without_topics_has_no_tables() -> None:
    cluster = JsonCluster()
    cluster.configs = {}
    assert await find_topics(cluster) == []
