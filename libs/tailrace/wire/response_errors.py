"""Every error of an answer, wherever its API keeps them: at the top, or one for each item.

Kafka's AbstractResponse.errorCounts, with names and messages. An answer may refuse all items and none at its top.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tailrace.wire.apis import ApiKey


class ItemError(NamedTuple):
    """One refused item: its names from the outermost in (topic, partition), none for the answer as a whole."""

    names: tuple[str, ...]
    code: int
    message: str | None


# A place is the way from the top to a struct with its error code. Each step is an array and the field that names its
# items; where none does, the item's position stands for it.
_TOP: Final = ""
_TOPICS: Final = "topics:name"
_PARTITIONS: Final = "topics:name partitions:partition_index"
ERROR_PLACES: Final[Mapping[int, tuple[str, ...]]] = {
    ApiKey.PRODUCE: ("responses:name partition_responses:index",),
    ApiKey.FETCH: (_TOP, "responses:topic partitions:partition_index"),
    ApiKey.LIST_OFFSETS: (_PARTITIONS,),
    ApiKey.METADATA: (_TOP, _TOPICS, _PARTITIONS),
    ApiKey.OFFSET_COMMIT: (_PARTITIONS,),
    ApiKey.OFFSET_FETCH: (
        _TOP,
        _PARTITIONS,
        "groups:group_id",
        "groups:group_id topics:name partitions:partition_index",
    ),
    ApiKey.FIND_COORDINATOR: (_TOP, "coordinators:key"),
    ApiKey.JOIN_GROUP: (_TOP,),
    ApiKey.HEARTBEAT: (_TOP,),
    ApiKey.LEAVE_GROUP: (_TOP, "members:member_id"),
    ApiKey.SYNC_GROUP: (_TOP,),
    ApiKey.DESCRIBE_GROUPS: ("groups:group_id",),
    ApiKey.LIST_GROUPS: (_TOP,),
    ApiKey.SASL_HANDSHAKE: (_TOP,),
    ApiKey.SASL_AUTHENTICATE: (_TOP,),
    ApiKey.API_VERSIONS: (_TOP,),
    ApiKey.CREATE_TOPICS: (_TOPICS,),
    ApiKey.DELETE_TOPICS: ("responses:name",),
    ApiKey.DELETE_RECORDS: (_PARTITIONS,),
    ApiKey.INIT_PRODUCER_ID: (_TOP,),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ("topics:topic partitions:partition",),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        _TOP,
        "results_by_transaction:transactional_id topic_results:name results_by_partition:partition_index",
        "results_by_topic_v3_and_below:name results_by_partition:partition_index",
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: (_TOP,),
    ApiKey.END_TXN: (_TOP,),
    ApiKey.WRITE_TXN_MARKERS: ("markers:producer_id topics:name partitions:partition_index",),
    ApiKey.TXN_OFFSET_COMMIT: (_PARTITIONS,),
    ApiKey.DESCRIBE_ACLS: (_TOP,),
    ApiKey.CREATE_ACLS: ("results:",),
    ApiKey.DELETE_ACLS: ("filter_results:", "filter_results: matching_acls:resource_name"),
    ApiKey.DESCRIBE_CONFIGS: ("results:resource_name",),
    ApiKey.ALTER_CONFIGS: ("responses:resource_name",),
    ApiKey.ALTER_REPLICA_LOG_DIRS: ("results:topic_name partitions:partition_index",),
    ApiKey.DESCRIBE_LOG_DIRS: (_TOP, "results:log_dir"),
    ApiKey.CREATE_PARTITIONS: ("results:name",),
    ApiKey.DELETE_GROUPS: ("results:group_id",),
    ApiKey.ELECT_LEADERS: (_TOP, "replica_election_results:topic partition_result:partition_id"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ("responses:resource_name",),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (_TOP, "responses:name partitions:partition_index"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (_TOP,),
    ApiKey.OFFSET_DELETE: (_TOP, _PARTITIONS),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (_TOP,),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (_TOP, "results:user"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ("results:user",),
    ApiKey.ALTER_CLIENT_QUOTAS: ("entries:",),
    ApiKey.DESCRIBE_QUORUM: (_TOP, "topics:topic_name partitions:partition_index"),
    ApiKey.UPDATE_FEATURES: (_TOP, "results:feature"),
    ApiKey.DESCRIBE_CLUSTER: (_TOP,),
    ApiKey.DESCRIBE_PRODUCERS: (_PARTITIONS,),
    ApiKey.UNREGISTER_BROKER: (_TOP,),
    ApiKey.DESCRIBE_TRANSACTIONS: ("transaction_states:transactional_id",),
    ApiKey.LIST_TRANSACTIONS: (_TOP,),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (_TOP,),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ("groups:group_id",),
    ApiKey.LIST_CONFIG_RESOURCES: (_TOP,),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (_TOPICS, _PARTITIONS),
}


def response_errors(key: int, response: Any) -> Iterator[ItemError]:
    """The errors of an answer to this API, whatever its version; none if all of it was done."""
    for place in ERROR_PLACES[key]:
        for names, found in _items(response, place.split(" ") if place else [], ()):
            if code := _code(found):
                yield ItemError(names, code, getattr(found, "error_message", None))


def _code(found: Any) -> int:
    """AddPartitionsToTxn alone has another name for it."""
    return int(found.partition_error_code if hasattr(found, "partition_error_code") else found.error_code)


def _items(struct: Any, steps: list[str], names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not steps:
        yield names, struct
        return
    array, _, field = steps[0].partition(":")
    for position, item in enumerate(getattr(struct, array) or ()):
        name = getattr(item, field) if field else position
        yield from _items(item, steps[1:], (*names, str(name)))
