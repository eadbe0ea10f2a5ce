"""Services of this machine with PostgreSQL and Redis in containers (testcontainers), and the small compose file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from kafka import KafkaProducer
from redis.exceptions import RedisError
from testcontainers.community.postgres import PostgresContainer
from testcontainers.community.redis import RedisContainer

from integration.quota.load import alter_quotas
from support import docker_engine
from support.compose import ONE_CONTAINER, ComposeCluster
from support.ports import free_ports
from support.subscribing import subscribed
from support.waiting import until
from tailrace.errors import ErrorCode
from tailrace.net.address import Address
from tailrace.testing import Cluster
from tailrace.testing.admin import Refused

pytestmark = pytest.mark.timeout(600)
HEAL_S = 120


@pytest.fixture
def postgres() -> Iterator[PostgresContainer]:
    """On a port that stays when it is started again."""
    container = PostgresContainer(docker_engine.POSTGRES, driver=None).with_bind_ports(5432, free_ports(1))
    with container as running:
        yield running


@pytest.fixture
def redis() -> Iterator[RedisContainer]:
    with RedisContainer(docker_engine.REDIS).with_bind_ports(6379, free_ports(1)) as running:
        yield running


def test_controllers_on_a_database_in_a_container_that_dies_and_comes_back(postgres: PostgresContainer) -> None:
    url = postgres.get_connection_url()
    with (
        Cluster(
            brokers=2, arguments=["--controllers", "2"], environ={**os.environ, "TAILRACE_METADATA_URL": url}
        ) as cluster,
        closing(KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")) as producer,
    ):
        cluster.create_topic("before", replicas=2)
        producer.send("before", b"1").get(HEAL_S)
        postgres.get_wrapped_container().kill()
        producer.send("before", b"2").get(HEAL_S)  # no control plane is needed for data
        postgres.get_wrapped_container().start()
        until(lambda: cluster_takes_topics(cluster), "a controller is active again", HEAL_S)
        producer.send("after", b"3").get(HEAL_S)
        with psycopg.connect(url) as connection:
            names = {name for (name,) in connection.execute("SELECT name FROM topics")}
    assert {"before", "after"} <= names


def cluster_takes_topics(cluster: Cluster) -> bool:
    """Whether the topic is there; on a busy machine the controller may take longer than one request waits."""
    try:
        cluster.create_topic("after", replicas=2)
    except Refused as refused:
        return ErrorCode.TOPIC_ALREADY_EXISTS.name in str(refused)
    return True


async def test_quota_services_on_a_redis_in_a_container_that_dies_and_comes_back(redis: RedisContainer) -> None:
    url = f"redis://{redis.get_container_host_ip()}:{redis.get_exposed_port(6379)}/0"
    with closing(redis.get_client()) as shared, Cluster(arguments=["--quotas", "2", "--quota-url", url]) as cluster:
        await alter_quotas(Address.parse(cluster.bootstrap), {"client-id": "limited"}, producer_byte_rate=10e6)
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, client_id="limited", acks="all")
        with closing(producer):

            def is_leased() -> bool:
                producer.send("t", bytes(10_000)).get(HEAL_S)
                return int(shared.dbsize()) > 0

            until(is_leased, "a lease is in Redis", HEAL_S)
            redis.get_wrapped_container().kill()
            producer.send("t", bytes(10_000)).get(HEAL_S)
            redis.get_wrapped_container().start()
            until(lambda: redis_answers(redis), "Redis answers", HEAL_S)
            until(is_leased, "a lease is in the Redis that came back empty", HEAL_S)


def redis_answers(redis: RedisContainer) -> bool:
    try:
        with closing(redis.get_client()) as client:
            return bool(client.ping())
    except RedisError:
        return False


def test_the_small_compose_file_keeps_its_data_over_down_and_up() -> None:
    with ComposeCluster(ONE_CONTAINER) as cluster:
        with KafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
            producer.send("orders", b"2 apples").get(HEAL_S)
        cluster.down()
        cluster.up()
        with subscribed("orders", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            assert next(consumer).value == b"2 apples"
