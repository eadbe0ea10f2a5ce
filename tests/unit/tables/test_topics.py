"""Which topics ask to be tables."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from support.reading import Clock
from support.topic_tables import TABLE, TOPIC_ID, JsonCluster
from tailrace.tables.topics import TopicFinder
from tailrace.tables.worker import TableTopic

NO = {**TABLE, "tailrace.table": "none"}


def finder(cluster: JsonCluster, clock: Clock, only: Collection[str] = ()) -> TopicFinder:
    return TopicFinder(cluster, clock, only)


def tables(*names: str, topic_id: UUID = TOPIC_ID) -> list[TableTopic]:
    return [TableTopic(name, topic_id, 2, 1000) for name in names]


async def test_topics_whose_config_says_so_are_tables() -> None:
    cluster = JsonCluster([], [])
    cluster.configs = {"b": TABLE, "a": TABLE, "c": NO, "may not be seen": {}, "__consumer_offsets": TABLE}
    assert await finder(cluster, Clock()).find() == tables("a", "b")
    assert await finder(cluster, Clock(), {"b", "c", "unknown"}).find() == tables("b")


async def test_a_cluster_without_topics_has_no_tables() -> None:
    cluster = JsonCluster()
    cluster.configs = {}
    assert await finder(cluster, Clock()).find() == []


async def test_configs_are_asked_for_once_a_minute_and_of_new_topics_at_once() -> None:
    """Also those that may not be seen."""
    cluster, clock = JsonCluster([], []), Clock()
    cluster.configs = {"a": TABLE, "b": NO, "may not be seen": {}}
    looks = finder(cluster, clock)
    for _ in range(11):
        assert await looks.find() == tables("a")
        clock.advance(5_000)
    assert sorted(cluster.described) == sorted(cluster.configs)
    cluster.described.clear()
    cluster.configs = {"a": NO, "b": TABLE, "c": TABLE, "may not be seen": {}}
    assert await looks.find() == tables("a", "c")
    assert cluster.described == ["c"]
    clock.advance(5_000)
    assert await looks.find() == tables("b", "c")
    assert cluster.described == ["c", *sorted(cluster.configs)]


async def test_a_topic_that_is_made_again_is_a_new_topic() -> None:
    cluster, clock = JsonCluster([], []), Clock()
    looks = finder(cluster, clock)
    assert await looks.find() == tables("t")
    cluster.configs, cluster.topic_id = {"t": NO}, UUID(int=8)
    assert await looks.find() == []


async def test_a_topic_whose_configs_are_not_there_yet_is_asked_again() -> None:
    cluster, clock = JsonCluster([], []), Clock()
    cluster.unready = {"t"}
    looks = finder(cluster, clock)
    assert await looks.find() == []
    cluster.unready.clear()
    assert await looks.find() == tables("t")
