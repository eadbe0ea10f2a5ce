"""Every column that docs/sql.md promises, read from a cluster with data: over SQLite and over PostgreSQL."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from support.ports import free_ports
from support.postgres import Postgres
from support.waiting import HUNG_S, until
from tailrace.access.acls import AclPermission, PatternType
from tailrace.access.resources import AclOperation, ResourceType
from tailrace.net.address import Address
from tailrace.net.authorization.opening import STANDARD
from tailrace.net.client import Client
from tailrace.testing import Cluster
from tailrace.wire.messages import AlterClientQuotasRequest, CreateAclsRequest
from tailrace_controller.store.schema import SCHEMA_VERSION

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "sql.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## The views")[2].partition("\n## ")[0]
DOCUMENTED = {
    name: columns.split(", ") for name, columns in re.findall(r"^\| `(\w+)` \| ([^|]+?) \|$", SECTION, re.MULTILINE)
}
TOPIC, GROUP, TRANSACTION = "viewed", "viewers", "mine"
Query = Callable[[str], list[dict[str, Any]]]


def query_of(url: str) -> Query:
    def query(sql: str) -> list[dict[str, Any]]:
        engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
        try:
            with engine.connect() as connection:
                return [dict(row) for row in connection.execute(sa.text(sql)).mappings()]
        finally:
            engine.dispose()

    return query


def fill(cluster: Cluster) -> None:
    """Five records, a group that read three of them, an open transaction, a quota and its use, an ACL."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
    for _ in range(5):
        producer.send(TOPIC, b"x", partition=0).get(HUNG_S)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id=GROUP, enable_auto_commit=False)
    partition = TopicPartition(TOPIC, 0)
    consumer.assign([partition])
    consumer.commit({partition: OffsetAndMetadata(3, "here", -1)})
    consumer.close()
    open_transaction(cluster)
    asyncio.run(set_quota(cluster))
    asyncio.run(create_acl(cluster))
    limited = KafkaProducer(bootstrap_servers=cluster.bootstrap, client_id="slow")
    limited.send("elsewhere", b"x", partition=0).get(HUNG_S)
    limited.close()


def open_transaction(cluster: Cluster) -> None:
    """One that its producer does not end."""
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap, transactional_id=TRANSACTION, transaction_timeout_ms=600_000
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(TOPIC, b"x", partition=0).get(HUNG_S)
    producer.close()  # which leaves it open


async def set_quota(cluster: Cluster) -> None:
    host, _, port = cluster.bootstrap.partition(",")[0].rpartition(":")
    client = Client(Address(host, int(port)), "quota-admin")
    entry = AlterClientQuotasRequest.EntryData
    entity = [entry.EntityData(entity_type="client-id", entity_name="slow")]
    change = entry(entity=entity, ops=[entry.OpData(key="producer_byte_rate", value=1e6, remove=False)])
    request = AlterClientQuotasRequest(entries=[change], validate_only=False)
    answer = await client.ask(request, timeout_ms=30_000, version=1)
    await client.close()
    assert answer.entries[0].error_code == 0


async def create_acl(cluster: Cluster) -> None:
    host, _, port = cluster.bootstrap.partition(",")[0].rpartition(":")
    client = Client(Address(host, int(port)), "acl-admin")
    acl = CreateAclsRequest.AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=TOPIC,
        resource_pattern_type=PatternType.LITERAL,
        principal="User:a",
        host="*",
        operation=AclOperation.READ,
        permission_type=AclPermission.ALLOW,
    )
    answer = await client.ask(CreateAclsRequest(creations=[acl]), timeout_ms=30_000, version=3)
    await client.close()
    assert answer.results[0].error_code == 0


def check(cluster: Cluster, query: Query) -> None:
    fill(cluster)
    (offset,) = until(
        lambda: query(f"SELECT * FROM group_offsets WHERE group_id = '{GROUP}' AND lag = 3 AND lag_trend = 0") or None,
        "a lag in SQL",
    )
    assert (offset["topic"], offset["partition_id"], offset["metadata"]) == (TOPIC, 0, "here")
    assert (offset["committed_offset"], offset["log_end_offset"], offset["lag"]) == (3, 6, 3)
    (transaction,) = until(
        lambda: query("SELECT * FROM transactions WHERE start_ms > 0") or None, "a transaction in SQL"
    )
    told = {name: transaction[name] for name in ("transactional_id", "state", "partitions")}
    assert told == {"transactional_id": TRANSACTION, "state": "Ongoing", "partitions": 1}
    (used,) = until(lambda: query("SELECT * FROM quota_usage") or None, "the use of a quota in SQL")
    assert (used["entity"], used["name"], used["value"]) == ("client-id=slow", "producer_byte_rate", 1e6)
    assert used["usage"] > 0
    assert offset["lag_seconds"] > 0
    for view, columns in DOCUMENTED.items():
        rows = query(f"SELECT {', '.join(columns)} FROM {view}")
        empty = [name for name in columns if all(row[name] is None for row in rows)]
        assert not empty, f"{view}: nothing in {empty} of {len(rows)} rows"
    (said,) = re.findall(r"`schema_version` (\d+)", SECTION)
    assert query("SELECT version FROM schema_version") == [{"version": SCHEMA_VERSION}] == [{"version": int(said)}]


def started(folder: Path, *arguments: str) -> Cluster:
    settings = {
        "broker.rack": "a",
        "num.partitions": "1",
        "offsets.topic.num.partitions": "2",
        "authorizer.class.name": STANDARD,
        "super.users": "User:ANONYMOUS",
    }
    return Cluster(port=free_ports(1), data_dir=folder, settings=settings, arguments=arguments)


def test_the_page_names_every_view_and_all_of_its_columns(tmp_path: Path) -> None:
    with started(tmp_path) as cluster:
        query = query_of(f"sqlite:///{cluster.data_dir}/metadata.db")
        views = [row["name"] for row in query("SELECT name FROM sqlite_master WHERE type = 'view'")]
        assert sorted(DOCUMENTED) == sorted(views)
        for view, columns in DOCUMENTED.items():
            there = [row["name"] for row in query(f"SELECT name FROM pragma_table_info('{view}')")]
            assert columns == there
        check(cluster, query)


def test_every_column_is_filled_in_postgresql_too(tmp_path: Path, postgres: Postgres) -> None:
    with started(tmp_path, "--metadata-url", postgres.url) as cluster:
        check(cluster, query_of(postgres.url))
