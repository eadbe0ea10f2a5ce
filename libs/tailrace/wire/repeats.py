"""What a request names twice is answered once: one table for every list of every API, obeyed by the decoder.

Otherwise a few bytes that name something large again and again make an answer of any size. Apache Kafka answers most
of these repeats once, refuses some, and answers the others as often as they come; here the last kind is answered once,
too. A list that is kept as it came says why nothing grows with its repeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

from tailrace.wire.apis import ApiKey


@dataclass(frozen=True, slots=True)
class Once:
    """Rows with the same `by` are one, with the lists inside them joined; without `by` the values themselves are rows.

    last: of its other fields the last row's count, else the first one's. A null list means all, and stays null when it
    is joined; empty_is_all says the same of an empty one.
    """

    by: tuple[str, ...] = ()
    last: bool = False
    empty_is_all: bool = False


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Rows stay as they came, because of what is said here."""

    why: str


Rule = Once | KeptRows
VALUES: Final = Once()
_REFUSED: Final = KeptRows("repeats are refused, as in Apache Kafka")
_PER_ROW: Final = KeptRows("each row is answered or refused by a row of a size that is its own")
_INSIDE: Final = KeptRows("read into one value of its row; no answer tells it")
_ROLES: Final = KeptRows("roles of the cluster alone may send it")
_OWN: Final = KeptRows("decoded by hand, see wire/hot")

_TOPICS_BY_NAME: Final = Once(by=("name",))
_BY_NAME_OR_ID: Final = Once(by=("name", "topic_id"))

# API -> path of a list in its request -> what becomes of rows that are the same.
RULES: Mapping[ApiKey, Mapping[str, Rule]] = {
    ApiKey.PRODUCE: {"topic_data": _OWN, "topic_data.partition_data": _OWN},
    ApiKey.FETCH: {
        "topics": _OWN,
        "topics.partitions": _OWN,
        "forgotten_topics_data": _OWN,
        "forgotten_topics_data.partitions": _OWN,
    },
    ApiKey.LIST_OFFSETS: {"topics": _TOPICS_BY_NAME, "topics.partitions": _REFUSED},
    ApiKey.METADATA: {"topics": Once(by=("topic_id", "name"))},
    ApiKey.OFFSET_COMMIT: {
        "topics": _BY_NAME_OR_ID,
        "topics.partitions": Once(by=("partition_index",), last=True),
    },
    ApiKey.OFFSET_FETCH: {
        "topics": _TOPICS_BY_NAME,
        "topics.partition_indexes": VALUES,
        "groups": Once(by=("group_id",)),
        "groups.topics": _BY_NAME_OR_ID,
        "groups.topics.partition_indexes": VALUES,
    },
    ApiKey.FIND_COORDINATOR: {"coordinator_keys": VALUES},
    ApiKey.JOIN_GROUP: {"protocols": Once(by=("name",))},
    ApiKey.HEARTBEAT: {},
    ApiKey.LEAVE_GROUP: {"members": Once(by=("member_id", "group_instance_id"))},
    ApiKey.SYNC_GROUP: {"assignments": Once(by=("member_id",), last=True)},
    ApiKey.DESCRIBE_GROUPS: {"groups": VALUES},
    ApiKey.LIST_GROUPS: {"states_filter": VALUES, "types_filter": VALUES},
    ApiKey.API_VERSIONS: {},
    ApiKey.CREATE_TOPICS: {
        "topics": _REFUSED,
        "topics.assignments": _REFUSED,
        "topics.assignments.broker_ids": _REFUSED,
        "topics.configs": _INSIDE,
    },
    ApiKey.DELETE_TOPICS: {"topics": _REFUSED, "topic_names": _REFUSED},
    ApiKey.DELETE_RECORDS: {
        "topics": _TOPICS_BY_NAME,
        "topics.partitions": Once(by=("partition_index",), last=True),
    },
    ApiKey.INIT_PRODUCER_ID: {},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {
        "topics": Once(by=("topic",)),
        "topics.partitions": Once(by=("partition",)),
    },
    ApiKey.ADD_PARTITIONS_TO_TXN: {
        "transactions": Once(by=("transactional_id",)),
        "transactions.topics": _TOPICS_BY_NAME,
        "transactions.topics.partitions": VALUES,
        "v3_and_below_topics": _TOPICS_BY_NAME,
        "v3_and_below_topics.partitions": VALUES,
    },
    ApiKey.ADD_OFFSETS_TO_TXN: {},
    ApiKey.END_TXN: {},
    ApiKey.WRITE_TXN_MARKERS: {
        "markers": _PER_ROW,
        "markers.topics": _PER_ROW,
        "markers.topics.partition_indexes": _PER_ROW,
    },
    ApiKey.TXN_OFFSET_COMMIT: {
        "topics": _BY_NAME_OR_ID,
        "topics.partitions": Once(by=("partition_index",), last=True),
    },
    ApiKey.DESCRIBE_ACLS: {},
    ApiKey.CREATE_ACLS: {"creations": _PER_ROW},
    ApiKey.DELETE_ACLS: {"filters": _PER_ROW},
    ApiKey.DESCRIBE_CONFIGS: {
        "resources": Once(by=("resource_type", "resource_name")),
        "resources.configuration_keys": Once(empty_is_all=True),
    },
    ApiKey.ALTER_CONFIGS: {"resources": _REFUSED, "resources.configs": _REFUSED},
    ApiKey.ALTER_REPLICA_LOG_DIRS: {
        "dirs": Once(by=("path",)),
        "dirs.topics": _TOPICS_BY_NAME,
        "dirs.topics.partitions": VALUES,
    },
    ApiKey.DESCRIBE_LOG_DIRS: {"topics": Once(by=("topic",)), "topics.partitions": VALUES},
    ApiKey.CREATE_PARTITIONS: {
        "topics": _REFUSED,
        "topics.assignments": _INSIDE,
        "topics.assignments.broker_ids": _REFUSED,
    },
    ApiKey.DELETE_GROUPS: {"groups_names": VALUES},
    ApiKey.ELECT_LEADERS: {"topic_partitions": Once(by=("topic",)), "topic_partitions.partitions": VALUES},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {"resources": _REFUSED, "resources.configs": _REFUSED},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {
        "topics": _TOPICS_BY_NAME,
        "topics.partitions": Once(by=("partition_index",), last=True),
        "topics.partitions.replicas": _REFUSED,
    },
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {"topics": _TOPICS_BY_NAME, "topics.partition_indexes": VALUES},
    ApiKey.OFFSET_DELETE: {"topics": _TOPICS_BY_NAME, "topics.partitions": Once(by=("partition_index",))},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {"components": _REFUSED},
    ApiKey.ALTER_CLIENT_QUOTAS: {"entries": _PER_ROW, "entries.entity": _REFUSED, "entries.ops": _INSIDE},
    ApiKey.UPDATE_FEATURES: {"feature_updates": Once(by=("feature",), last=True)},
    ApiKey.SASL_HANDSHAKE: {},
    ApiKey.SASL_AUTHENTICATE: {},
    ApiKey.DESCRIBE_CLUSTER: {},
    ApiKey.DESCRIBE_PRODUCERS: {"topics": _TOPICS_BY_NAME, "topics.partition_indexes": VALUES},
    ApiKey.UNREGISTER_BROKER: {},
    ApiKey.DESCRIBE_TRANSACTIONS: {"transactional_ids": VALUES},
    ApiKey.LIST_TRANSACTIONS: {"state_filters": VALUES, "producer_id_filters": VALUES},
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {
        "subscribed_topic_names": VALUES,
        "topic_partitions": Once(by=("topic_id",)),
        "topic_partitions.partitions": VALUES,
    },
    ApiKey.CONSUMER_GROUP_DESCRIBE: {"group_ids": VALUES},
    ApiKey.LIST_CONFIG_RESOURCES: {"resource_types": VALUES},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: {"topics": _TOPICS_BY_NAME},
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {"users": _REFUSED},
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {"deletions": _REFUSED, "upsertions": _REFUSED},
    ApiKey.DESCRIBE_QUORUM: {"topics": _PER_ROW, "topics.partitions": _PER_ROW},
    ApiKey.ALTER_PARTITION: {
        "topics": _ROLES,
        "topics.partitions": _ROLES,
        "topics.partitions.new_isr": _ROLES,
        "topics.partitions.new_isr_with_epochs": _ROLES,
    },
    ApiKey.FETCH_SNAPSHOT: {"topics": _ROLES, "topics.partitions": _ROLES},
    ApiKey.BROKER_REGISTRATION: {"listeners": _ROLES, "features": _ROLES, "log_dirs": _ROLES},
    ApiKey.BROKER_HEARTBEAT: {"offline_log_dirs": _ROLES, "cordoned_log_dirs": _ROLES},
    ApiKey.ALLOCATE_PRODUCER_IDS: {},
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: {
        "directories": _ROLES,
        "directories.topics": _ROLES,
        "directories.topics.partitions": _ROLES,
    },
    ApiKey.PREAMBLE: {},
    ApiKey.REGISTER_SERVICE: {"endpoints": _ROLES},
    ApiKey.SERVICE_HEARTBEAT: {},
    ApiKey.ACQUIRE_LEASE: {"entries": _ROLES},
    ApiKey.FENCE_SHARD: {},
    ApiKey.ADOPT_CONNECTION: {},
    ApiKey.DESCRIBE_CLEANER: {},
    ApiKey.METADATA_OFFSET: {},
    ApiKey.DESCRIBE_OPEN_TRANSACTIONS: {},
    ApiKey.DESCRIBE_QUOTA_USAGE: {},
    ApiKey.REPORT_GROUPS: {},
}


@dataclass(frozen=True, slots=True)
class _List:
    """A rule with those of the lists inside its rows."""

    rule: Rule
    inner: dict[str, _List] = field(default_factory=dict)


def _nested(rules: Mapping[str, Rule]) -> dict[str, _List]:
    """Paths as a tree, of lists that are answered once and of what is inside their rows."""
    top: dict[str, _List] = {}
    for path, rule in rules.items():
        *outer, name = path.split(".")
        if isinstance(rule, KeptRows) and (not outer or isinstance(rules[".".join(outer)], KeptRows)):
            continue
        level = top
        for part in outer:
            level = level[part].inner
        level[name] = _List(rule)
    return top


_NESTED: Final[Mapping[int, dict[str, _List]]] = {
    key: nested for key, rules in RULES.items() if (nested := _nested(rules))
}

_NO_LISTS: Final[Mapping[str, _List]] = {}


def answered_once(key: int, request: Any) -> object:
    """The request with every repeated row taken out, or joined to the first of its kind."""
    for name, inside in _NESTED.get(key, _NO_LISTS).items():
        if getattr(request, name, None):
            _take_out(request, name, inside)
    return request


def _take_out(owner: Any, name: str, inside: _List) -> None:
    rows = getattr(owner, name, None)
    if not rows:
        return
    if len(rows) > 1 and isinstance(inside.rule, Once):
        rows = _distinct(rows, inside.rule, inside.inner)
        setattr(owner, name, rows)
    for inner, below in inside.inner.items():
        if _has(rows[0], inner):
            for row in rows:
                found = getattr(row, inner)
                if found and (below.inner or len(found) > 1):
                    _take_out(row, inner, below)


def _has(row: Any, name: str) -> bool:
    """Whether rows of this version have the field; where they have not, all have its default."""
    return bool(row.fields[name].for_version_q(row.version))


def _distinct(rows: list[Any], rule: Once, inner: Mapping[str, _List]) -> list[Any]:
    if not rule.by:
        return list(dict.fromkeys(rows))
    which = attrgetter(*[name for name in rule.by if _has(rows[0], name)])
    if len(set(map(which, rows))) == len(rows):  # as nearly all clients ask
        return rows
    places: dict[Any, int] = {}
    found: list[Any] = []
    for row in rows:
        at = places.setdefault(which(row), len(found))
        if at == len(found):
            found.append(row)
            continue
        first, found[at] = found[at], row if rule.last else found[at]
        for name, below in inner.items():
            setattr(found[at], name, _joined(getattr(first, name), getattr(row, name), below.rule))
    return found


def _joined(first: list[Any] | None, second: list[Any] | None, rule: Rule) -> list[Any] | None:
    empty_is_all = isinstance(rule, Once) and rule.empty_is_all
    for rows in (first, second):
        if rows is None or (empty_is_all and not rows):
            return rows
    assert first is not None and second is not None
    first.extend(second)  # in place: what is joined a hundred thousand times must not be copied each time
    return first


def lists_of(struct: Any, prefix: str = "") -> Iterator[str]:
    """The paths of all lists in a message's schema, those inside rows after the rows themselves."""
    for name, inner in struct.fields.items():
        if inner.is_array():
            yield prefix + name
            if inner.array_of.is_struct():
                yield from lists_of(inner.array_of, f"{prefix}{name}.")
        elif inner.is_struct():
            yield from lists_of(inner, f"{prefix}{name}.")
