"""Kafka's table of operations and resources on protocols, walked on Apache Kafka and on Tailrace with the same ACLs.

Every request is asked without a right, with each right of its rows alone, with all of them, and with those that Kafka
documents and does not ask for. What is compared are the refusals, and the operations that an answer names. All clients
are anonymous; those of another address are other clients to the ACLs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final, NamedTuple

import pytest

from support import kafka_peer
from support.authorizers import ANY, table
from support.batches import batch
from support.java_tools import ACLS, JavaTools, Shell
from support.kafka_peer import KafkaPeer
from support.plugin import leave_out
from support.ports import HOST, free_ports
from support.raw import ConnectionClosed, Raw, build
from support.waiting import HUNG_S, until
from tailrace.access.resources import FAILED, AclOperation, ResourceType
from tailrace.net.authorization.opening import STANDARD
from tailrace.testing import Cluster
from tailrace.wire.apis import ApiKey

CLIENT, ADMIN, ITSELF = "127.0.0.2", "127.0.0.9", "127.0.0.1"
SETTINGS = {
    "authorizer.class.name": STANDARD,
    "allow.everyone.if.no.acl.found": "true",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
REFUSED: Final = frozenset(int(code) for code in FAILED.values())
Right = tuple[AclOperation, ResourceType, str]


def topics(**fields: Any) -> list[Any]:
    return [{"name": "t", **fields}]


ALTERED = [
    {"resource_type": kind, "resource_name": name, "configs": []} for kind, name in ((2, "t"), (4, "0"), (32, "g"))
]
REPLICA = {"partition_index": 0, "replicas": [0]}
ACL = {"resource_type": 2, "resource_name": "u", "resource_pattern_type": 3, "principal": "User:u", "host": "*"}
OFFSET = {"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1, "committed_metadata": ""}
TXN = {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0}
MEMBER = {"group_id": "g", "member_id": "m"}
# For each API its requests: version and fields.
REQUESTS: dict[str, list[tuple[int, dict[str, Any]]]] = {
    "PRODUCE": [
        (
            9,
            {
                "acks": 1,
                "timeout_ms": 5000,
                "topic_data": topics(partition_data=[{"index": 0, "records": batch(b"v")}]),
            },
        ),
    ],
    "FETCH": [
        (
            11,
            {
                "max_wait_ms": 0,
                "min_bytes": 0,
                "max_bytes": 1,
                "topics": [
                    {"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]}
                ],
            },
        )
    ],
    "LIST_OFFSETS": [(7, {"replica_id": -1, "topics": topics(partitions=[{"partition_index": 0, "timestamp": -1}])})],
    "METADATA": [
        (
            9,
            {
                "topics": wanted,
                "allow_auto_topic_creation": creating,
                "include_topic_authorized_operations": True,
                "include_cluster_authorized_operations": True,
            },
        )
        for wanted, creating in (([{"name": "t"}], False), (None, False))
    ],
    "OFFSET_COMMIT": [(8, {**MEMBER, "generation_id_or_member_epoch": -1, "topics": topics(partitions=[OFFSET])})],
    "OFFSET_FETCH": [
        (8, {"groups": [{"group_id": "g", "topics": some}]}) for some in (topics(partition_indexes=[0]), None)
    ],
    "FIND_COORDINATOR": [(4, {"key_type": kind, "coordinator_keys": [name]}) for kind, name in ((0, "g"), (1, "x"))],
    "JOIN_GROUP": [
        (
            5,
            {
                **MEMBER,
                "protocol_type": "consumer",
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 10_000,
                "protocols": topics(metadata=b""),
            },
        )
    ],
    "HEARTBEAT": [(4, {**MEMBER, "generation_id": 1})],
    "LEAVE_GROUP": [(3, {"group_id": "g", "members": [{"member_id": "m"}]})],
    "SYNC_GROUP": [
        (5, {**MEMBER, "generation_id": 1, "protocol_type": "consumer", "protocol_name": "range", "assignments": []})
    ],
    "DESCRIBE_GROUPS": [(5, {"groups": ["g"], "include_authorized_operations": True})],
    "LIST_GROUPS": [(4, {"states_filter": []})],
    "CREATE_TOPICS": [(7, {"topics": topics(num_partitions=1, replication_factor=1), "timeout_ms": 5000})],
    "DELETE_TOPICS": [(5, {"topic_names": ["missing", "t2"], "timeout_ms": 5000})],
    "DELETE_RECORDS": [
        (2, {"topics": topics(partitions=[{"partition_index": 0, "offset": 0}]), "timeout_ms": 5000}),
    ],
    "INIT_PRODUCER_ID": [(4, {"transactional_id": name, "transaction_timeout_ms": 5000}) for name in ("x", None)],
    "OFFSET_FOR_LEADER_EPOCH": [
        (
            4,
            {
                "replica_id": -2,
                "topics": [
                    {"topic": "t", "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}
                ],
            },
        )
    ],
    "ADD_PARTITIONS_TO_TXN": [
        (
            3,
            {
                "v3_and_below_transactional_id": "x",
                "v3_and_below_producer_id": 1,
                "v3_and_below_producer_epoch": 0,
                "v3_and_below_topics": topics(partitions=[0]),
            },
        )
    ],
    "ADD_OFFSETS_TO_TXN": [(3, {**TXN, "group_id": "g"})],
    "END_TXN": [(3, {**TXN, "committed": True})],
    "WRITE_TXN_MARKERS": [
        (
            1,
            {
                "markers": [
                    {
                        "producer_id": 1,
                        "producer_epoch": 0,
                        "transaction_result": False,
                        "coordinator_epoch": 0,
                        "topics": topics(partition_indexes=[0]),
                    }
                ]
            },
        )
    ],
    "TXN_OFFSET_COMMIT": [(3, {**TXN, **MEMBER, "topics": topics(partitions=[OFFSET])})],
    "DESCRIBE_ACLS": [(3, {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1})],
    "CREATE_ACLS": [(3, {"creations": [{**ACL, "operation": 3, "permission_type": 3}]})],
    "DELETE_ACLS": [
        (
            3,
            {
                "filters": [
                    {
                        "resource_type_filter": 2,
                        "resource_name_filter": "u",
                        "pattern_type_filter": 3,
                        "principal_filter": None,
                        "host_filter": None,
                        "operation": 1,
                        "permission_type": 1,
                    }
                ]
            },
        )
    ],
    "DESCRIBE_CONFIGS": [
        (
            4,
            {
                "resources": [
                    {"resource_type": kind, "resource_name": name, "configuration_keys": ["x"]}
                    for kind, name in ((2, "t"), (4, "0"), (32, "g"))
                ]
            },
        )
    ],
    "ALTER_CONFIGS": [(2, {"resources": ALTERED[:1], "validate_only": True})],
    "INCREMENTAL_ALTER_CONFIGS": [(1, {"resources": ALTERED, "validate_only": True})],
    "ALTER_REPLICA_LOG_DIRS": [(2, {"dirs": [{"path": "/nowhere", "topics": topics(partitions=[0])}]})],
    "LIST_CONFIG_RESOURCES": [(0, {})],
    "ALTER_USER_SCRAM_CREDENTIALS": [(0, {"deletions": [{"name": "u", "mechanism": 1}], "upsertions": []})],
    "DESCRIBE_LOG_DIRS": [(4, {"topics": None})],
    "CREATE_PARTITIONS": [(3, {"topics": topics(count=1, assignments=None), "timeout_ms": 5000})],
    "DELETE_GROUPS": [(2, {"groups_names": ["missing"]})],
    "ELECT_LEADERS": [(2, {"election_type": 0, "topic_partitions": None, "timeout_ms": 5000})],
    "ALTER_PARTITION_REASSIGNMENTS": [(0, {"topics": topics(partitions=[REPLICA]), "timeout_ms": 5000})],
    "LIST_PARTITION_REASSIGNMENTS": [(0, {"topics": None, "timeout_ms": 5000})],
    "OFFSET_DELETE": [(0, {"group_id": "g", "topics": topics(partitions=[{"partition_index": 9}])})],
    "DESCRIBE_CLIENT_QUOTAS": [(1, {"components": [], "strict": False})],
    "ALTER_CLIENT_QUOTAS": [(1, {"entries": [], "validate_only": True})],
    "DESCRIBE_USER_SCRAM_CREDENTIALS": [(0, {"users": [{"name": "u"}]})],
    "DESCRIBE_QUORUM": [
        (0, {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]})
    ],
    "UPDATE_FEATURES": [(1, {"timeout_ms": 5000, "feature_updates": [], "validate_only": True})],
    "DESCRIBE_CLUSTER": [(0, {"include_cluster_authorized_operations": True})],
    "DESCRIBE_PRODUCERS": [(0, {"topics": topics(partition_indexes=[0])})],
    "UNREGISTER_BROKER": [(0, {"broker_id": 77})],
    "DESCRIBE_TRANSACTIONS": [(0, {"transactional_ids": ["x"]})],
    "LIST_TRANSACTIONS": [(0, {"state_filters": [], "producer_id_filters": []})],
    "CONSUMER_GROUP_HEARTBEAT": [
        (
            0,
            {
                "group_id": "g",
                "member_id": "m",
                "member_epoch": 5,
                "rebalance_timeout_ms": -1,
                "subscribed_topic_names": ["t"],
            },
        )
    ],
    "CONSUMER_GROUP_DESCRIBE": [(0, {"group_ids": ["g"], "include_authorized_operations": True})],
    "DESCRIBE_TOPIC_PARTITIONS": [
        (0, {"topics": some, "response_partition_limit": 100, "cursor": None}) for some in (topics(), [])
    ],
}
NEEDS_NONE = {"API_VERSIONS", "SASL_HANDSHAKE", "SASL_AUTHENTICATE"}


class Side(NamedTuple):
    """One of the two clusters."""

    admin: Raw
    address: tuple[str, int]

    def client(self) -> Raw:
        """A connection of the client's."""
        return Raw(*self.address, source_host=CLIENT)


class Seen(NamedTuple):
    """What of an answer is compared."""

    refused: Counter[int]
    operations: tuple[object, ...]
    names: tuple[str, ...]


def acl(operation: AclOperation, kind: ResourceType, name: str, host: str) -> dict[str, Any]:
    fields = {"resource_type": int(kind), "resource_name": name, "operation": int(operation), "permission_type": 3}
    return {"resource_pattern_type": 3, "principal": "User:ANONYMOUS", "host": host, **fields}


def create(admin: Raw, rows: Sequence[dict[str, Any]]) -> None:
    assert {row.error_code for row in admin.ask(build(30, creations=list(rows)), 3).results} <= {0}


def make_topic(admin: Raw, name: str) -> None:
    """With one partition, unless it is there."""
    row = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    admin.ask(build(19, topics=[row], timeout_ms=20_000), 5)


def opened(bootstrap: str) -> Side:
    """Only the administrator's address may do something, and the cluster's own."""
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    admin = Raw(host, int(port), source_host=ADMIN)
    for name in ("t", "t2"):
        make_topic(admin, name)
    for key_type, key in ((0, "g"), (1, "x")):
        find = build(10, key_type=key_type, coordinator_keys=[key])
        until(lambda: admin.ask(find, 4).coordinators[0].error_code == 0, "a coordinator")  # noqa: B023
    commit = build(8, group_id="g", generation_id_or_member_epoch=-1, topics=topics(partitions=[OFFSET]))
    until(lambda: not admin.ask(commit, 8).topics[0].partitions[0].error_code, "the group is there")
    begin = build(22, transactional_id="x", transaction_timeout_ms=60_000)
    until(lambda: not admin.ask(begin, 4).error_code, "the transactional id is there")
    kinds = [ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID]
    everything = [acl(AclOperation.ALL, kind, "*", ADMIN) for kind in kinds]
    cluster = [acl(AclOperation.ALL, ResourceType.CLUSTER, "kafka-cluster", host) for host in (ADMIN, ITSELF)]
    create(admin, [*cluster, *everything])
    return Side(admin, (host, int(port)))


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Side]]:
    if absent := kafka_peer.missing():
        leave_out(absent)
    peer = KafkaPeer(tmp_path_factory.mktemp("authorizing"), SETTINGS)
    with ExitStack() as stack:
        peer.start()
        stack.callback(peer.stop)
        ours = stack.enter_context(Cluster(port=free_ports(1), settings=SETTINGS))
        found = {"kafka": opened(f"{HOST}:{peer.port}"), "tailrace": opened(ours.bootstrap)}
        yield found
        for side in found.values():
            side.admin.close()


def seen(answer: Any) -> Seen:
    refused, operations, names = Counter[int](), list[object](), list[str]()

    def look(value: Any) -> None:
        for name in type(value).fields if hasattr(type(value), "fields") else ():
            found = getattr(value, name, None)
            if name.endswith("error_code") and found in REFUSED:
                refused[found] += 1
            elif name.endswith("authorized_operations"):
                operations.append(tuple(sorted(found)) if isinstance(found, set | frozenset) else found)
            elif name in ("name", "group_id", "transactional_id") and isinstance(found, str):
                names.append(found)
            for row in found if isinstance(found, list) else ():
                look(row)

    look(answer)
    return Seen(refused, tuple(operations), tuple(sorted(name for name in names if not name.startswith("__"))))


def asked(side: Side, api: str, version: int, fields: dict[str, Any]) -> Seen | str:
    with suppress(ConnectionClosed), side.client() as client:
        return seen(client.ask(build(ApiKey[api], **fields), version))
    return "closed"


def rights(api: str) -> list[Right]:
    """Those of the API's rows, asked for or only documented."""
    rows = [row for row in table() if row.api == api and row.operation]
    return [
        (AclOperation[row.operation], ResourceType[row.resource], "any-topic" if row.name == ANY else row.name)
        for row in rows
    ]


def delete_all(side: Side) -> None:
    """The client has no right any more."""
    fields = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    wanted = {**fields, "resource_name_filter": None, "principal_filter": None, "host_filter": CLIENT}
    assert side.admin.ask(build(31, filters=[wanted]), 3).filter_results[0].error_code == 0


def test_every_api_of_the_table_is_asked() -> None:
    assert {row.api for row in table()} == REQUESTS.keys() | NEEDS_NONE


@pytest.mark.parametrize("api", REQUESTS)
def test_the_same_rights_are_asked_for(api: str, sides: dict[str, Side]) -> None:
    of_rows = rights(api)
    sets: list[list[Right]] = [[], *([one] for one in of_rows), of_rows]
    for granted in sets:
        for side in sides.values():
            if granted:
                create(side.admin, [acl(*one, CLIENT) for one in granted])
        for version, fields in REQUESTS[api]:
            deadline = time.monotonic() + HUNG_S
            while True:  # each role hears of the ACLs by itself
                found = {name: asked(side, api, version, fields) for name, side in sides.items()}
                if found["kafka"] == found["tailrace"] or time.monotonic() > deadline:
                    break
            assert found["tailrace"] == found["kafka"], (api, version, [str(one) for one in granted])
        for side in sides.values():
            delete_all(side)


def paged_names(side: Side) -> list[str]:
    """Every name that the answers to a client tell of all topics, with the cursors."""
    names, cursor = list[str](), None
    with side.client() as client:
        for _ in range(100):
            fields = {"topics": [], "response_partition_limit": 1, "cursor": cursor}
            answer = client.ask(build(75, **fields), 0)
            names += [topic.name for topic in answer.topics]
            if answer.next_cursor is None:
                return names
            names.append(answer.next_cursor.topic_name)
            cursor = {"topic_name": names[-1], "partition_index": answer.next_cursor.partition_index}
    raise AssertionError("more than 100 pages")


@pytest.mark.parametrize("granted", [[], ["paged"]])
def test_pages_of_all_topics_tell_of_no_other(granted: list[str], sides: dict[str, Side]) -> None:
    for side in sides.values():
        make_topic(side.admin, "paged")  # another test deletes t2
        if granted:
            create(side.admin, [acl(AclOperation.DESCRIBE, ResourceType.TOPIC, name, CLIENT) for name in granted])
        until(lambda: paged_names(side) == granted, "the topics that the client may describe, and no other")  # noqa: B023
        delete_all(side)


def tool(jvm: JavaTools, side: Side, *arguments: str) -> list[str]:
    """What kafka-acls.sh prints, in an order of its own."""
    host, port = side.address
    return sorted(Shell(jvm, f"{host}:{port}").out(ACLS, *arguments).splitlines())


def of_alice(jvm: JavaTools, side: Side) -> list[str] | None:
    """What the tool lists of her ACLs, None without any: a node may not have heard yet of what was changed."""
    listed = tool(jvm, side, "--list", "--principal", "User:alice")
    return listed if any("principal=User:alice" in line for line in listed) else None


@pytest.mark.parametrize(
    "arguments",
    [
        ("--producer", "--idempotent", "--topic", "orders", "--transactional-id", "billing"),
        ("--consumer", "--topic", "ord", "--group", "shop", "--resource-pattern-type", "prefixed"),
        ("--operation", "DescribeConfigs", "--cluster", "--allow-host", "10.0.0.0/8"),
    ],
)
def test_kafka_acls_adds_lists_and_removes(arguments: tuple[str, ...], jvm: JavaTools, sides: dict[str, Side]) -> None:
    resources = tuple(
        word
        for at, word in enumerate(arguments)
        if word in ("--topic", "--transactional-id", "--group", "--cluster", "--resource-pattern-type")
        or (at and arguments[at - 1] in ("--topic", "--transactional-id", "--group", "--resource-pattern-type"))
    )
    told = {}
    for name, side in sides.items():
        added = tool(jvm, side, "--add", "--allow-principal", "User:alice", *arguments)
        listed = until(lambda: of_alice(jvm, side), "ACLs")  # noqa: B023
        removed = tool(jvm, side, "--remove", "--force", "--allow-principal", "User:alice", *arguments)
        until(lambda: not of_alice(jvm, side), "no ACLs")  # noqa: B023
        told[name] = (added, listed, removed, tool(jvm, side, "--list", "--principal", "User:alice", *resources))
    assert told["tailrace"] == told["kafka"]
    assert any("User:alice" in line for line in told["kafka"][1])
