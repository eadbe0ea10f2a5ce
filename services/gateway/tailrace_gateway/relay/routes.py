"""Where each API goes: one literal table, then the same with versions for the relay's inner loop.

An API without a row here is not served on the gateway's ports, whatever the roles behind it can do.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from tailrace.wire.apis import APIS, ApiKey
from tailrace.wire.header import FLEXIBLE_FROM


class Route(IntEnum):
    """Who answers: the connection's node, this gateway, the active controller, or the owner of the id's shard."""

    NODE = 0
    HERE = 1
    CONTROLLER = 2
    COORDINATOR = 3


ROUTES: Mapping[ApiKey, Route] = {
    ApiKey.PRODUCE: Route.NODE,
    ApiKey.FETCH: Route.NODE,
    ApiKey.LIST_OFFSETS: Route.NODE,
    ApiKey.DELETE_RECORDS: Route.NODE,
    ApiKey.INIT_PRODUCER_ID: Route.NODE,  # with a transactional id: its coordinator
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Route.NODE,
    ApiKey.ALTER_REPLICA_LOG_DIRS: Route.NODE,
    ApiKey.DESCRIBE_LOG_DIRS: Route.NODE,
    ApiKey.DESCRIBE_PRODUCERS: Route.NODE,
    ApiKey.WRITE_TXN_MARKERS: Route.NODE,
    ApiKey.METADATA: Route.HERE,
    ApiKey.FIND_COORDINATOR: Route.HERE,
    ApiKey.API_VERSIONS: Route.HERE,
    ApiKey.SASL_HANDSHAKE: Route.HERE,
    ApiKey.SASL_AUTHENTICATE: Route.HERE,
    ApiKey.DESCRIBE_CLUSTER: Route.HERE,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Route.HERE,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Route.HERE,
    ApiKey.CREATE_TOPICS: Route.CONTROLLER,
    ApiKey.DELETE_TOPICS: Route.CONTROLLER,
    ApiKey.CREATE_PARTITIONS: Route.CONTROLLER,
    ApiKey.DESCRIBE_CONFIGS: Route.CONTROLLER,
    ApiKey.ALTER_CONFIGS: Route.CONTROLLER,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Route.CONTROLLER,
    ApiKey.LIST_CONFIG_RESOURCES: Route.CONTROLLER,
    ApiKey.DESCRIBE_ACLS: Route.CONTROLLER,
    ApiKey.CREATE_ACLS: Route.CONTROLLER,
    ApiKey.DELETE_ACLS: Route.CONTROLLER,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Route.CONTROLLER,
    ApiKey.ALTER_CLIENT_QUOTAS: Route.CONTROLLER,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Route.CONTROLLER,
    ApiKey.ELECT_LEADERS: Route.CONTROLLER,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Route.CONTROLLER,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Route.CONTROLLER,
    ApiKey.DESCRIBE_QUORUM: Route.CONTROLLER,
    ApiKey.UNREGISTER_BROKER: Route.CONTROLLER,
    ApiKey.UPDATE_FEATURES: Route.CONTROLLER,
    ApiKey.OFFSET_COMMIT: Route.COORDINATOR,
    ApiKey.OFFSET_FETCH: Route.COORDINATOR,
    ApiKey.JOIN_GROUP: Route.COORDINATOR,
    ApiKey.SYNC_GROUP: Route.COORDINATOR,
    ApiKey.HEARTBEAT: Route.COORDINATOR,
    ApiKey.LEAVE_GROUP: Route.COORDINATOR,
    ApiKey.DESCRIBE_GROUPS: Route.COORDINATOR,
    ApiKey.LIST_GROUPS: Route.COORDINATOR,
    ApiKey.DELETE_GROUPS: Route.COORDINATOR,
    ApiKey.OFFSET_DELETE: Route.COORDINATOR,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Route.COORDINATOR,
    ApiKey.CONSUMER_GROUP_DESCRIBE: Route.COORDINATOR,
    ApiKey.ADD_PARTITIONS_TO_TXN: Route.COORDINATOR,
    ApiKey.ADD_OFFSETS_TO_TXN: Route.COORDINATOR,
    ApiKey.END_TXN: Route.COORDINATOR,
    ApiKey.TXN_OFFSET_COMMIT: Route.COORDINATOR,
    ApiKey.DESCRIBE_TRANSACTIONS: Route.COORDINATOR,
    ApiKey.LIST_TRANSACTIONS: Route.COORDINATOR,
}

ROLE_OF: Mapping[Route, str] = {Route.NODE: "broker", Route.CONTROLLER: "controller", Route.COORDINATOR: "coordinator"}


class Row(NamedTuple):
    """One API as the relay sees it: versions min_version..max_version; request header v2 from flexible_from on."""

    route: int
    min_version: int
    max_version: int
    flexible_from: int


# What an internal connection may say before it has said for whom it speaks.
PREAMBLE_ONLY: Mapping[int, Row] = {int(ApiKey.PREAMBLE): Row(int(Route.HERE), 0, 0, FLEXIBLE_FROM[ApiKey.PREAMBLE])}

Versions = Mapping[int, tuple[int, int]]


def table(served: Mapping[str, Versions] | None = None) -> dict[int, Row]:
    """The routes with the versions of the api table, clamped to what each role behind says it serves.

    `served` is role -> api key -> (min, max); a role that has not said anything yet does not narrow. An API of which no
    version is left has no row.
    """
    rows = {}
    for key, route in ROUTES.items():
        api = APIS.get(key)
        if api is None:
            continue
        low, high = api.min_version, api.max_version
        behind = (served or {}).get(ROLE_OF.get(route, ""))
        if behind:
            least, most = behind.get(key, (high + 1, high))
            low, high = max(low, least), min(high, most)
        if low <= high:
            rows[int(key)] = Row(int(route), low, high, FLEXIBLE_FROM[key])
    return rows
