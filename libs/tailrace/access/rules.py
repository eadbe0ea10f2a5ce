"""The checks of each API, in their order: Kafka's table of operations and resources on protocols, as its code has it.

Where Kafka's documentation and its KafkaApis or ControllerApis differ, the code counts: ElectLeaders needs ALTER, and
Produce no IDEMPOTENT_WRITE (KIP-679). Produce, Fetch and Metadata ask by themselves. ApiVersions needs no right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tailrace.access.authorizer import Denied
from tailrace.access.checks import (
    Access,
    AnswerRows,
    Check,
    Left,
    Operations,
    RefusedPart,
    RequestRows,
    TopicName,
    Whole,
    field,
    itself,
    topic,
)
from tailrace.access.resources import CLUSTER_NAME, FAILED, AclOperation, ResourceType
from tailrace.errors import ErrorCode
from tailrace.wire.apis import ApiKey

_O = AclOperation
_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
_BY_TRANSACTION_FROM = 4  # AddPartitionsToTxn of brokers


def _old_transactional_id(request: Any, version: int, topic_name: TopicName) -> str | None:
    return request.v3_and_below_transactional_id if version < _BY_TRANSACTION_FROM else None


def _broker_of_transactions(request: Any, version: int, topic_name: TopicName) -> str | None:
    return CLUSTER_NAME if version >= _BY_TRANSACTION_FROM else None


def _idempotent(request: Any, version: int, topic_name: TopicName) -> str | None:
    return CLUSTER_NAME if request.transactional_id is None else None


def _config_resource(row: Any) -> ResourceType | None:
    """Of a broker's config, its loggers', and client metrics it is the cluster; None: the handler knows no such one."""
    return {2: _TOPIC, 4: _CLUSTER, 8: _CLUSTER, 16: _CLUSTER, 32: _GROUP}.get(row.resource_type)


class _Coordinator(Check):
    """FindCoordinator: one key, from v4 on several."""

    _TYPES: Final = {0: _GROUP, 1: _TRANSACTIONAL_ID, 2: _CLUSTER}

    def before(self, request: Any, access: Access) -> Left:
        kind = self._TYPES.get(request.key_type)
        if kind is None:
            return Left(request)
        operation = _O.CLUSTER_ACTION if kind is _CLUSTER else _O.DESCRIBE
        if access.version >= 4:
            return RequestRows("coordinator_keys", operation, kind, itself).before(request, access)
        return Whole(kind, (operation,), field("key")).before(request, access)


class _OffsetFetchGroup(Check):
    """OffsetFetch: one group, from v8 on several, each with its topics; v0-7 have the code where they have one."""

    def before(self, request: Any, access: Access) -> Left:
        if access.version >= 8:
            return RequestRows("groups", _O.DESCRIBE, _GROUP, field("group_id")).before(request, access)
        return Whole(_GROUP, (_O.DESCRIBE,), field("group_id")).before(request, access)

    def after(self, request: Any, response: Any, access: Access) -> None:
        """Topics that were named are refused; of all topics the client is told of those that it may know."""
        groups = zip(request.groups, response.groups, strict=False) if access.version >= 8 else [(request, response)]
        for asked, answered in groups:
            known = list[object]()
            for row in answered.topics or ():
                name = topic(row, access.version, access.topic_name)
                may_know = name is None or access.authorized(_O.DESCRIBE, _TOPIC, name)
                if may_know or asked.topics is not None:
                    known.append(row)
                for partition in () if may_know else row.partitions:
                    partition.error_code = FAILED[_TOPIC]
                    partition.committed_offset, partition.committed_leader_epoch, partition.metadata = -1, -1, ""
            if len(known) < len(answered.topics or ()):
                answered.topics = known


class _CreatedConfigs(Check):
    """CreateTopics: the configs of a topic, from v5 on in the answer."""

    def after(self, request: Any, response: Any, access: Access) -> None:
        if access.version < 5:
            return
        for row in response.topics:
            if row.error_code or access.authorized(_O.DESCRIBE_CONFIGS, _TOPIC, row.name):
                continue
            row.topic_config_error_code = FAILED[_TOPIC]
            row.configs, row.num_partitions, row.replication_factor = None, -1, -1


class _SubscribedTopics(Check):
    """ConsumerGroupHeartbeat: one topic that the client may not know refuses the request."""

    def before(self, request: Any, access: Access) -> Left:
        for name in request.subscribed_topic_names or ():
            if not access.authorized(_O.DESCRIBE, _TOPIC, name):
                return Left(None, [RefusedPart(request, FAILED[_TOPIC], Denied(_O.DESCRIBE, _TOPIC, name))])
        return Left(request)


class _AssignedTopics(Check):
    """ConsumerGroupDescribe: a group with a topic that the client may not know is told without its members."""

    _WHY: Final = "The group has described topic(s) that the client is not authorized to describe."

    def after(self, request: Any, response: Any, access: Access) -> None:
        for group in response.groups:
            names = {
                topic.topic_name
                for member in group.members
                for assignment in (member.assignment, member.target_assignment)
                for topic in assignment.topic_partitions
            }
            if not all([access.authorized(_O.DESCRIBE, _TOPIC, name) for name in sorted(names)]):
                group.error_code, group.error_message, group.members = FAILED[_TOPIC], self._WHY, []


def _cluster(*operations: AclOperation) -> tuple[Check, ...]:
    return (Whole(_CLUSTER, operations),)


def _group(operation: AclOperation) -> tuple[Check, ...]:
    return (Whole(_GROUP, (operation,), field("group_id")),)


def _topics(operation: AclOperation, name: str = "topics", unless: AclOperation | None = None) -> Check:
    return RequestRows(name, operation, _TOPIC, topic, unless)


def _configs(operation: AclOperation) -> Check:
    return RequestRows("resources", operation, _config_resource, field("resource_name"))


_TRANSACTION: Final = Whole(_TRANSACTIONAL_ID, (_O.WRITE,), field("transactional_id"))

RULES: Final[Mapping[int, tuple[Check, ...]]] = {
    ApiKey.LIST_OFFSETS: (_topics(_O.DESCRIBE),),
    ApiKey.OFFSET_COMMIT: (*_group(_O.READ), _topics(_O.READ)),
    ApiKey.OFFSET_FETCH: (_OffsetFetchGroup(),),
    ApiKey.FIND_COORDINATOR: (_Coordinator(),),
    ApiKey.JOIN_GROUP: _group(_O.READ),
    ApiKey.HEARTBEAT: _group(_O.READ),
    ApiKey.LEAVE_GROUP: _group(_O.READ),
    ApiKey.SYNC_GROUP: _group(_O.READ),
    ApiKey.DESCRIBE_GROUPS: (
        RequestRows("groups", _O.DESCRIBE, _GROUP, itself),
        Operations("include_authorized_operations", _GROUP, "groups", field("group_id")),
    ),
    ApiKey.LIST_GROUPS: (AnswerRows("groups", _O.DESCRIBE, _GROUP, field("group_id"), _O.DESCRIBE),),
    ApiKey.CREATE_TOPICS: (_topics(_O.CREATE, unless=_O.CREATE), _CreatedConfigs()),
    ApiKey.DELETE_TOPICS: (
        RequestRows("topics", _O.DESCRIBE, _TOPIC, topic, _O.DELETE),
        RequestRows("topics", _O.DELETE, _TOPIC, topic, _O.DELETE),
        RequestRows("topic_names", _O.DESCRIBE, _TOPIC, itself, _O.DELETE),
        RequestRows("topic_names", _O.DELETE, _TOPIC, itself, _O.DELETE),
    ),
    ApiKey.DELETE_RECORDS: (_topics(_O.DELETE),),
    ApiKey.INIT_PRODUCER_ID: (
        _TRANSACTION,
        Whole(_CLUSTER, (_O.IDEMPOTENT_WRITE,), _idempotent, (_O.WRITE, _TOPIC)),
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (_topics(_O.DESCRIBE, unless=_O.CLUSTER_ACTION),),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        Whole(_TRANSACTIONAL_ID, (_O.WRITE,), _old_transactional_id),
        Whole(_CLUSTER, (_O.CLUSTER_ACTION,), _broker_of_transactions),
        RequestRows("v3_and_below_topics", _O.WRITE, _TOPIC, topic, others=ErrorCode.OPERATION_NOT_ATTEMPTED),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: (_TRANSACTION, *_group(_O.READ)),
    ApiKey.END_TXN: (_TRANSACTION,),
    ApiKey.WRITE_TXN_MARKERS: _cluster(_O.ALTER, _O.CLUSTER_ACTION),
    ApiKey.TXN_OFFSET_COMMIT: (_TRANSACTION, *_group(_O.READ), _topics(_O.READ)),
    ApiKey.DESCRIBE_ACLS: _cluster(_O.DESCRIBE),
    ApiKey.CREATE_ACLS: _cluster(_O.ALTER),
    ApiKey.DELETE_ACLS: _cluster(_O.ALTER),
    ApiKey.DESCRIBE_CONFIGS: (_configs(_O.DESCRIBE_CONFIGS),),
    ApiKey.ALTER_CONFIGS: (RequestRows("resources", _O.ALTER_CONFIGS, _config_resource, field("resource_name")),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        RequestRows("resources", _O.ALTER_CONFIGS, _config_resource, field("resource_name")),
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _cluster(_O.ALTER),
    ApiKey.DESCRIBE_LOG_DIRS: _cluster(_O.DESCRIBE),
    ApiKey.CREATE_PARTITIONS: (_topics(_O.ALTER),),
    ApiKey.DELETE_GROUPS: (RequestRows("groups_names", _O.DELETE, _GROUP, itself),),
    ApiKey.ELECT_LEADERS: _cluster(_O.ALTER),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _cluster(_O.ALTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _cluster(_O.DESCRIBE),
    ApiKey.OFFSET_DELETE: (*_group(_O.DELETE), _topics(_O.READ)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _cluster(_O.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CLIENT_QUOTAS: _cluster(_O.ALTER_CONFIGS),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _cluster(_O.DESCRIBE),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _cluster(_O.ALTER),
    ApiKey.DESCRIBE_QUORUM: _cluster(_O.DESCRIBE),
    ApiKey.UPDATE_FEATURES: _cluster(_O.ALTER),
    ApiKey.DESCRIBE_CLUSTER: (Operations("include_cluster_authorized_operations", _CLUSTER),),
    ApiKey.DESCRIBE_PRODUCERS: (_topics(_O.READ),),
    ApiKey.UNREGISTER_BROKER: _cluster(_O.ALTER),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        RequestRows("transactional_ids", _O.DESCRIBE, _TRANSACTIONAL_ID, itself),
        AnswerRows("topics", _O.DESCRIBE, _TOPIC, topic, within="transaction_states"),
    ),
    ApiKey.LIST_TRANSACTIONS: (
        AnswerRows("transaction_states", _O.DESCRIBE, _TRANSACTIONAL_ID, field("transactional_id")),
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (*_group(_O.READ), _SubscribedTopics()),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (
        RequestRows("group_ids", _O.DESCRIBE, _GROUP, itself),
        _AssignedTopics(),
        Operations("include_authorized_operations", _GROUP, "groups", field("group_id"), bits=True),
    ),
    ApiKey.LIST_CONFIG_RESOURCES: _cluster(_O.DESCRIBE_CONFIGS),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (
        _topics(_O.DESCRIBE),  # of all topics the handler asks, before it makes pages
        Operations("", _TOPIC, "topics", topic, "topic_authorized_operations", bits=True),
    ),
}

# Of a role that answers for a broker, too: what Produce and Fetch ask there by themselves.
OF_BROKERS: Final[Mapping[int, tuple[Check, ...]]] = {
    **RULES,
    ApiKey.PRODUCE: (_TRANSACTION, RequestRows("topic_data", _O.WRITE, _TOPIC, topic)),
    ApiKey.FETCH: (_topics(_O.READ),),
}


def before(api_key: int, request: object, access: Access, table: Mapping[int, tuple[Check, ...]] = RULES) -> Left:
    """What of a request may be handled, and what of it is refused."""
    refused: list[RefusedPart] = []
    for check in table.get(api_key, ()):
        left = check.before(request, access)
        refused += left.refused
        request = left.request
        if request is None:
            break
    return Left(request, refused)


def after(api_key: int, request: object, response: object, access: Access) -> None:
    """Takes from the answer of what was handled what the client may not know."""
    for check in RULES.get(api_key, ()):
        check.after(request, response, access)
