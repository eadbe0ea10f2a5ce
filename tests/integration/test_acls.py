"""A change of the ACLs holds at every role: gateway, broker, coordinator and controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.abuse import split_address
from support.ports import free_ports
from support.raw import Raw, build
from support.waiting import until
from tailrace.net.authorization.opening import STANDARD
from tailrace.records.record import Record
from tailrace.records.record import build as built
from tailrace.testing import Cluster

WAYS = {"at the gateway": {}, "at the broker": {"gateway.advertise": "brokers"}}
SETTINGS = {"authorizer.class.name": STANDARD, "allow.everyone.if.no.acl.found": "true"}
TOPIC, GROUP = 2, 3
TOPIC_REFUSED, GROUP_REFUSED = 29, 30
ANY = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1, "pattern_type_filter": 1}


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: way.replace(" ", "-"))
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(port=free_ports(1), settings=SETTINGS | WAYS[request.param]) as running:
        yield running


def address_of(cluster: Cluster) -> tuple[str, int]:
    own = cluster.addresses("broker", 0).get("client", cluster.bootstrap)
    return split_address(own.partition(",")[0])


def produced(client: Raw) -> int:
    data = {"index": 0, "records": bytes(built([Record(value=b"v")]))}
    request = build(0, acks=1, timeout_ms=5000, topic_data=[{"name": "t", "partition_data": [data]}])
    return int(client.ask(request, 9).responses[0].partition_responses[0].error_code)


def fetched(client: Raw) -> int:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
    request = build(1, max_wait_ms=0, min_bytes=0, max_bytes=1, topics=[{"topic": "t", "partitions": [partition]}])
    return int(client.ask(request, 11).responses[0].partitions[0].error_code)


def described(client: Raw) -> int:
    return int(client.ask(build(3, topics=[{"name": "t"}], allow_auto_topic_creation=False), 9).topics[0].error_code)


def grown(client: Raw) -> int:
    return int(client.ask(build(37, topics=[{"name": "t", "count": 1}], timeout_ms=5000), 3).results[0].error_code)


def committed(client: Raw) -> int:
    request = build(9, groups=[{"group_id": "g", "topics": []}], require_stable=False)
    return int(client.ask(request, 8).groups[0].error_code)


# What each role says without ACLs, and where all is denied.
ROLES: dict[str, tuple[Callable[[Raw], int], int, int]] = {
    "gateway": (described, 0, TOPIC_REFUSED),
    "broker, produce": (produced, 0, TOPIC_REFUSED),
    "broker, fetch": (fetched, 0, TOPIC_REFUSED),
    "controller": (grown, 37, TOPIC_REFUSED),  # INVALID_PARTITIONS: it has one already
    "coordinator": (committed, 0, GROUP_REFUSED),
}


def changed(client: Raw, *, denied: bool) -> None:
    """All is denied, or nothing."""
    if denied:
        one = {"host": "*", "principal": "User:*", "operation": 2, "permission_type": 2, "resource_pattern_type": 3}
        names = {TOPIC: "t", GROUP: "g"}
        rows: list[Any] = [{**one, "resource_type": kind, "resource_name": name} for kind, name in names.items()]
        assert [row.error_code for row in client.ask(build(30, creations=rows), 3).results] == [0, 0]
    else:
        filters = [{**ANY, "resource_type_filter": 1, "resource_name_filter": None}]
        (found,) = client.ask(build(31, filters=filters), 3).filter_results
        assert (found.error_code, len(found.matching_acls)) == (0, 2)


def holds(role: str, client: Raw, expected: int) -> None:
    until(lambda: ROLES[role][0](client) == expected, f"{role}: {expected}")


def test_a_change_holds_at_every_role(cluster: Cluster) -> None:
    with Raw(*address_of(cluster)) as client, Raw(*address_of(cluster)) as admin:
        topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        client.ask(build(19, topics=[topic], timeout_ms=5000), 5)
        until(lambda: produced(client) == 0, "the topic is led")
        find = build(10, key_type=0, coordinator_keys=["g"])
        until(lambda: client.ask(find, 4).coordinators[0].error_code == 0, "the group has a coordinator")
        for denied in (True, False) * 3:
            changed(admin, denied=denied)
            for role, (_, allowed, refused) in ROLES.items():
                holds(role, client, refused if denied else allowed)
