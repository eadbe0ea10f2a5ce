"""Minimal valid requests of every API, and their refusals: what the version tests send at every version.

One row is one API: a function of the stage and the version that answers the requests to send, each to its node.
"""

import contextlib
import functools
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from support.batches import batch
from support.raw import build
from support.stage import LOADING, Member, Topic, coordinator, create_topic, filled_topic, joined, unique
from support.targets import Target
from support.transactional import Transactional
from support.waiting import until

MISSING_ID = uuid.UUID("00000000-0000-0000-0000-0000000000aa")
MISSING = "no-such-topic"
MISSING_TRANSACTION = "no-such-transaction"
TOPIC, BROKER = 2, 4


@dataclass
class Stage:
    """What the requests refer to; made once for each target, each part when first asked for."""

    target: Target
    members: list[Member] = field(default_factory=list)

    @functools.cached_property
    def topic(self) -> Topic:
        """Two partitions, three records in partition 0."""
        return filled_topic(self.target, partitions=2)

    @functools.cached_property
    def group(self) -> str:
        """A group without members that has committed offset 2 of partition 0."""
        return self.committed_group()

    @property
    def group_node(self) -> int:
        """The node of that group."""
        return coordinator(self.target, self.group)

    @functools.cached_property
    def transactional_id(self) -> tuple[str, int]:
        """An id that nobody has, and the node that would coordinate it."""
        with contextlib.closing(Transactional(self.target)) as one:
            one.init()
        name = MISSING_TRANSACTION
        return name, until(lambda: self._coordinator_of(name), f"coordinator of {name}")[0]

    def _coordinator_of(self, name: str) -> tuple[int] | None:
        answer = self.target.ask(build(10, key=name, key_type=1), 3)
        return None if answer.error_code else (answer.node_id,)

    def committed_group(self) -> str:
        """A new group without members, with that offset."""
        name = unique("group")
        ask = Ask(commit_request(name, self.topic, 8), coordinator(self.target, name))
        answer = settled(self, ask, 8)
        assert answer.topics[0].partitions[0].error_code == 0, answer.to_dict()
        return name

    def member(self) -> Member:
        """The only member of a new stable group."""
        self.members.append(joined(self.target, unique("group")))
        return self.members[-1]

    def close(self) -> None:
        """Closes the members' connections."""
        for member in self.members:
            member.connection.close()


@dataclass(frozen=True)
class Ask:
    """One request, and the node that it goes to."""

    request: Any
    node: int = 0


Row = Callable[[Stage, int], list[Ask]]


def topic_key(topic: Topic | None, version: int, by_id_from: int, name_field: str = "topic") -> dict[str, Any]:
    """Names a topic as the version does; None is a topic that does not exist."""
    if version >= by_id_from:
        return {"topic_id": topic.topic_id if topic else MISSING_ID}
    return {name_field: topic.name if topic else MISSING}


def commit_request(group: str, topic: Topic | None, version: int, **fields: Any) -> Any:
    """OffsetCommit of offset 2 with metadata."""
    partition = {"partition_index": 0, "committed_offset": 2, "committed_metadata": "mine"}
    topics = [{**topic_key(topic, version, 10, "name"), "partitions": [partition]}]
    return build(
        8, **{"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics, **fields}
    )


def produce(stage: Stage, version: int) -> list[Ask]:
    def ask(topic: Topic | None, index: int, data: bytes) -> Ask:
        partitions = [{"index": index, "records": data}]
        row = {**topic_key(topic, version, 13, "name"), "partition_data": partitions}
        return Ask(build(0, acks=-1, timeout_ms=9000, topic_data=[row]), fresh.leaders[0])

    fresh = create_topic(stage.target)
    good = batch(b"one", b"two")
    wrong_crc = good[:-1] + bytes([good[-1] ^ 1])
    bad_acks = build(0, acks=2, timeout_ms=9000, topic_data=ask(fresh, 0, good).request.topic_data)
    asks = [ask(fresh, 0, good), ask(fresh, 0, good), ask(fresh, 9, good), ask(None, 0, good), ask(fresh, 0, wrong_crc)]
    return [*asks, Ask(bad_acks, fresh.leaders[0])]


def fetch(stage: Stage, version: int) -> list[Ask]:
    def ask(topic: Topic | None, partition: int, offset: int) -> Ask:
        row = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        topics = [{**topic_key(topic, version, 13), "partitions": [row]}]
        sizes = {"max_wait_ms": 10, "min_bytes": 1, "max_bytes": 1 << 20}
        request = build(1, replica_id=-1, session_epoch=-1, topics=topics, **sizes)
        return Ask(request, stage.topic.leaders[0])

    topic = stage.topic
    return [ask(topic, 0, 0), ask(topic, 0, 2), ask(topic, 0, 3), ask(topic, 0, 99), ask(topic, 9, 0), ask(None, 0, 0)]


def list_offsets(stage: Stage, version: int) -> list[Ask]:
    def ask(topic: str, partition: int, timestamp: int) -> Ask:
        row = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": -1}
        topics = [{"name": topic, "partitions": [row]}]
        return Ask(build(2, replica_id=-1, isolation_level=0, topics=topics), stage.topic.leaders[0])

    name = stage.topic.name
    timestamps = [-2, -1, 1_700_000_000_000, 1_900_000_000_000]
    if version >= 7:
        timestamps.append(-3)  # MAX_TIMESTAMP (KIP-734)
    return [*(ask(name, 0, timestamp) for timestamp in timestamps), ask(name, 9, -1), ask(MISSING, 0, -1)]


def metadata(stage: Stage, version: int) -> list[Ask]:
    creates = {"allow_auto_topic_creation": False}
    rows = [Ask(build(3, topics=[{"name": stage.topic.name}], **creates))]
    rows.append(Ask(build(3, topics=[{"name": "not a topic name"}], **creates)))
    if version >= 4:  # before, asking creates the topic
        rows.append(Ask(build(3, topics=[{"name": MISSING}], **creates)))
    if version >= 1:
        rows.append(Ask(build(3, topics=[], **creates)))
    if version >= 12:  # by id (KIP-516)
        rows.append(Ask(build(3, topics=[{"name": None, "topic_id": stage.topic.topic_id}], **creates)))
        rows.append(Ask(build(3, topics=[{"name": None, "topic_id": MISSING_ID}], **creates)))
    return rows


def offset_commit(stage: Stage, version: int) -> list[Ask]:
    group, node = stage.group, stage.group_node
    unknown_member = commit_request(group, stage.topic, version, generation_id_or_member_epoch=7, member_id="nobody")
    asks = [commit_request(group, stage.topic, version), commit_request(group, None, version), unknown_member]
    return [Ask(request, node) for request in asks]


def offset_fetch(stage: Stage, version: int) -> list[Ask]:
    partitions = [0, 1]

    def ask(group: str, everything: bool = False) -> Ask:
        row = {**topic_key(stage.topic, version, 10, "name"), "partition_indexes": partitions}
        topics = None if everything else [row]
        if version >= 8:
            return Ask(build(9, groups=[{"group_id": group, "topics": topics}]), stage.group_node)
        return Ask(build(9, group_id=group, topics=topics), stage.group_node)

    asks = [ask(stage.group)]
    if version >= 2:
        asks.append(ask(stage.group, everything=True))
    return asks


def find_coordinator(stage: Stage, version: int) -> list[Ask]:
    def ask(key: str, key_type: int) -> Ask:
        if version >= 4:
            return Ask(build(10, key_type=key_type, coordinator_keys=[key]))
        return Ask(build(10, key=key, key_type=key_type))

    coordinator(stage.target, "group")
    asks = [ask("group", 0)]
    if version >= 1:
        asks.append(ask("group", 9))
    return asks


def join_group(stage: Stage, version: int) -> list[Ask]:
    group = unique("group")
    node = coordinator(stage.target, group)
    protocols = [{"name": "range", "metadata": b"mine"}]
    fields: dict[str, Any] = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": ""}
    fields |= {"protocol_type": "consumer", "protocols": protocols}
    asks = [build(11, group_id=group, **fields), build(11, group_id="", **fields)]
    asks.append(build(11, group_id=group, **{**fields, "session_timeout_ms": 10}))
    asks.append(build(11, group_id=group, **{**fields, "member_id": "nobody"}))
    asks.append(build(11, group_id=unique("group"), **{**fields, "protocols": []}))
    return [Ask(request, node) for request in asks[:4]] + [Ask(asks[4], node)]


def sync_group(stage: Stage, version: int) -> list[Ask]:
    member = stage.member()
    node = coordinator(stage.target, member.group)
    names = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}

    def ask(member_id: str, generation_id: int, **fields: Any) -> Ask:
        group = {"group_id": member.group, "generation_id": generation_id, "member_id": member_id}
        return Ask(build(14, assignments=[], **group, **{**names, **fields}), node)

    asks = [ask(member.member_id, 1), ask("nobody", 1), ask(member.member_id, 9)]
    if version >= 5:
        asks.append(ask(member.member_id, 1, protocol_name="other"))
    return asks


def heartbeat(stage: Stage, version: int) -> list[Ask]:
    member = stage.member()
    node = coordinator(stage.target, member.group)

    def ask(member_id: str, generation_id: int, group: str = member.group) -> Ask:
        return Ask(build(12, group_id=group, generation_id=generation_id, member_id=member_id), node)

    return [ask(member.member_id, 1), ask(member.member_id, 9), ask("nobody", 1), ask("nobody", 1, "")]


def leave_group(stage: Stage, version: int) -> list[Ask]:
    member = stage.member()
    node = coordinator(stage.target, member.group)

    def ask(member_id: str) -> Ask:
        if version >= 3:
            return Ask(build(13, group_id=member.group, members=[{"member_id": member_id}]), node)
        return Ask(build(13, group_id=member.group, member_id=member_id), node)

    return [ask("nobody"), ask(member.member_id), ask(member.member_id)]


def describe_groups(stage: Stage, version: int) -> list[Ask]:
    member = stage.member()
    alive = Ask(build(15, groups=[member.group]), coordinator(stage.target, member.group))
    nobody = unique("group")
    asks = [alive, Ask(build(15, groups=[stage.group]), stage.group_node)]
    return [*asks, Ask(build(15, groups=[nobody]), coordinator(stage.target, nobody))]


def list_groups(stage: Stage, version: int) -> list[Ask]:
    filters = {"states_filter": ["Empty"]} if version >= 4 else {}
    types = {"types_filter": ["classic"]} if version >= 5 else {}
    return [Ask(build(16, **filters, **types), stage.group_node)]


def api_versions(stage: Stage, version: int) -> list[Ask]:
    def ask(**fields: Any) -> Ask:
        return Ask(build(18, client_software_name="raw", client_software_version="1", **fields))

    if version < 5:
        return [ask()]
    here = stage.target.ask(build(3, topics=[]), 5).cluster_id  # KIP-1242: both are checked, where both are given
    meant = [(None, -1), (here, 0), (here, 77), ("elsewhere", 0), (here, -1), (None, 0)]
    return [ask(cluster_id=cluster_id, node_id=node_id) for cluster_id, node_id in meant]


def create_topics(stage: Stage, version: int) -> list[Ask]:
    def ask(name: str, partitions: int = 1, factor: int = 1, validate_only: bool = False, **configs: str) -> Ask:
        entries = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        row = {"name": name, "num_partitions": partitions, "replication_factor": factor, "assignments": []}
        return Ask(build(19, topics=[{**row, "configs": entries}], timeout_ms=9000, validate_only=validate_only))

    asks = [ask(unique("topic"), retention_ms="1000"), ask(stage.topic.name), ask("not a name")]
    asks += [ask(unique("topic"), partitions=0), ask(unique("topic"), factor=9), ask(unique("topic"), no_such="1")]
    asks += [ask(unique("topic"), retention_ms="soon"), ask(unique("topic"), validate_only=True)]
    if version >= 4:  # broker defaults (KIP-464)
        asks.append(ask(unique("topic"), partitions=-1, factor=-1))
    return asks


def delete_topics(stage: Stage, version: int) -> list[Ask]:
    topic = create_topic(stage.target)
    if version >= 6:
        by_id = build(20, topics=[{"name": None, "topic_id": topic.topic_id}], timeout_ms=9000)
        missing_id = build(20, topics=[{"name": None, "topic_id": MISSING_ID}], timeout_ms=9000)
        missing = build(20, topics=[{"name": MISSING}], timeout_ms=9000)
        return [Ask(by_id), Ask(missing_id), Ask(missing)]
    names = [build(20, topic_names=[name], timeout_ms=9000) for name in (topic.name, MISSING)]
    return [Ask(request) for request in names]


def delete_records(stage: Stage, version: int) -> list[Ask]:
    topic = filled_topic(stage.target)

    def ask(name: str, partition: int, offset: int) -> Ask:
        topics = [{"name": name, "partitions": [{"partition_index": partition, "offset": offset}]}]
        return Ask(build(21, topics=topics, timeout_ms=9000), topic.leaders[0])

    asks = [ask(topic.name, 0, 2), ask(topic.name, 0, 9), ask(topic.name, 0, 1), ask(topic.name, 0, -1)]
    return [*asks, ask(topic.name, 7, 0), ask(MISSING, 0, 0)]


def init_producer_id(stage: Stage, version: int) -> list[Ask]:
    return [Ask(build(22, transactional_id=None, transaction_timeout_ms=1000, producer_id=-1, producer_epoch=-1))]


def add_partitions_to_txn(stage: Stage, version: int) -> list[Ask]:
    name, node = stage.transactional_id
    topics = [{"name": stage.topic.name, "partitions": [0]}]
    producer = {"transactional_id": name, "producer_id": 77, "producer_epoch": 0}
    if version >= 4:
        rows = [{**producer, "verify_only": only, "topics": topics} for only in (False, True)]
        return [
            Ask(build(24, transactions=some), node) for some in ([rows[0]], [rows[1]])
        ]  # Kafka never answers one without any
    fields = {f"v3_and_below_{field}": value for field, value in producer.items()}
    missing = [{"name": MISSING, "partitions": [0]}]
    return [Ask(build(24, **fields, v3_and_below_topics=some), node) for some in (topics, missing)]


def add_offsets_to_txn(stage: Stage, version: int) -> list[Ask]:
    name, node = stage.transactional_id
    return [Ask(build(25, transactional_id=name, producer_id=77, producer_epoch=0, group_id=stage.group), node)]


def end_txn(stage: Stage, version: int) -> list[Ask]:
    name, node = stage.transactional_id
    fields = {"transactional_id": name, "producer_id": 77, "producer_epoch": 0}
    return [Ask(build(26, **fields, committed=committed), node) for committed in (True, False)]


def write_txn_markers(stage: Stage, version: int) -> list[Ask]:
    topics = [{"name": MISSING, "partition_indexes": [0]}]
    marker = {"producer_id": 77, "producer_epoch": 0, "transaction_result": False, "coordinator_epoch": 0}
    return [Ask(build(27, markers=markers)) for markers in ([{**marker, "topics": topics}], [])]


def txn_offset_commit(stage: Stage, version: int) -> list[Ask]:
    name, _ = stage.transactional_id
    fields = {"transactional_id": name, "group_id": stage.group, "producer_id": 77, "producer_epoch": 0}
    row = {"partition_index": 0, "committed_offset": 1}
    keys = [topic_key(topic, version, 6, "name") for topic in (stage.topic, None)]
    return [Ask(build(28, **fields, topics=[{**key, "partitions": [row]}]), stage.group_node) for key in keys]


def update_features(stage: Stage, version: int) -> list[Ask]:
    return [Ask(build(57, timeout_ms=1000, feature_updates=[{"feature": "nope", "max_version_level": 1}]))]


def describe_transactions(stage: Stage, version: int) -> list[Ask]:
    name, node = stage.transactional_id
    return [Ask(build(65, transactional_ids=ids), node) for ids in ([name], [])]


def list_transactions(stage: Stage, version: int) -> list[Ask]:
    _, node = stage.transactional_id
    filters = ({"producer_id_filters": [10**9]}, {"state_filters": ["Nonsense"], "producer_id_filters": [10**9]})
    return [Ask(build(66, **one), node) for one in filters]


def offset_for_leader_epoch(stage: Stage, version: int) -> list[Ask]:
    def ask(name: str, partition: int, epoch: int) -> Ask:
        row = {"partition": partition, "current_leader_epoch": -1, "leader_epoch": epoch}
        return Ask(build(23, replica_id=-2, topics=[{"topic": name, "partitions": [row]}]), stage.topic.leaders[0])

    return [ask(stage.topic.name, 0, 0), ask(stage.topic.name, 0, 5), ask(stage.topic.name, 9, 0), ask(MISSING, 0, 0)]


def describe_configs(stage: Stage, version: int) -> list[Ask]:
    def ask(kind: int, name: str, *keys: str, node: int = 0) -> Ask:
        row = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}
        more: dict[str, Any] = {"include_synonyms": True} if version >= 1 else {}
        if version >= 3:
            more["include_documentation"] = True
        return Ask(build(32, resources=[row], **more), node)

    plain = create_topic(stage.target).name
    asks = [ask(TOPIC, plain, "retention.ms"), ask(TOPIC, MISSING), ask(BROKER, "0", "num.io.threads")]
    return [*asks, ask(BROKER, "77"), ask(99, "what")]


def alter_configs(stage: Stage, version: int) -> list[Ask]:
    def ask(kind: int, name: str, key: str, value: str) -> Ask:
        row = {"resource_type": kind, "resource_name": name, "configs": [{"name": key, "value": value}]}
        return Ask(build(33, resources=[row], validate_only=False))

    topic = create_topic(stage.target)
    asks = [ask(TOPIC, topic.name, "retention.ms", "5000"), ask(TOPIC, topic.name, "retention.ms", "soon")]
    return [*asks, ask(TOPIC, MISSING, "retention.ms", "5000"), ask(TOPIC, topic.name, "no.such", "1")]


def incremental_alter_configs(stage: Stage, version: int) -> list[Ask]:
    def ask(kind: int, name: str, key: str, value: str | None, operation: int = 0) -> Ask:
        config = {"name": key, "config_operation": operation, "value": value}
        row = {"resource_type": kind, "resource_name": name, "configs": [config]}
        return Ask(build(44, resources=[row], validate_only=False))

    topic = create_topic(stage.target)
    asks = [ask(TOPIC, topic.name, "retention.ms", "5000"), ask(TOPIC, topic.name, "retention.ms", None, 1)]
    asks += [ask(TOPIC, topic.name, "cleanup.policy", "compact", 2), ask(TOPIC, topic.name, "retention.ms", "1", 2)]
    asks += [ask(TOPIC, topic.name, "retention.ms", "soon"), ask(TOPIC, MISSING, "retention.ms", "1")]
    return [*asks, ask(TOPIC, topic.name, "no.such", "1"), ask(99, "what", "retention.ms", "1")]


def alter_replica_log_dirs(stage: Stage, version: int) -> list[Ask]:
    def ask(path: str, name: str, *partitions: int) -> Ask:
        row = {"path": path, "topics": [{"name": name, "partitions": list(partitions)}]}
        return Ask(build(34, dirs=[row]), node)

    node = stage.topic.leaders[0]
    (here,) = [row.log_dir for row in stage.target.ask(build(35, topics=[]), 4, node).results]
    wrong = [ask("/no/such/dir", stage.topic.name, 0), ask(here, "t" * 240, 0)]
    return [ask(here, stage.topic.name, 0), ask(here, stage.topic.name, 99), ask(here, MISSING, 0, 1), *wrong]


def describe_log_dirs(stage: Stage, version: int) -> list[Ask]:
    topics = [{"topic": stage.topic.name, "partitions": [0]}]
    return [Ask(build(35, topics=topics), stage.topic.leaders[0])]


def create_partitions(stage: Stage, version: int) -> list[Ask]:
    topic = create_topic(stage.target)

    def ask(name: str, count: int) -> Ask:
        return Ask(build(37, topics=[{"name": name, "count": count, "assignments": None}], timeout_ms=9000))

    return [ask(topic.name, 3), ask(topic.name, 3), ask(topic.name, 1), ask(topic.name, 0), ask(MISSING, 2)]


def delete_groups(stage: Stage, version: int) -> list[Ask]:
    member = stage.member()
    alive = Ask(build(42, groups_names=[member.group]), coordinator(stage.target, member.group))
    nobody, empty = unique("group"), stage.committed_group()
    node = coordinator(stage.target, empty)
    asks = [alive, Ask(build(42, groups_names=[empty]), node)]
    return [*asks, Ask(build(42, groups_names=[nobody]), coordinator(stage.target, nobody))]


def offset_delete(stage: Stage, version: int) -> list[Ask]:
    group, nobody = stage.committed_group(), unique("group")
    node = coordinator(stage.target, group)
    topics = [{"name": stage.topic.name, "partitions": [{"partition_index": 0}, {"partition_index": 9}]}]
    asks = [Ask(build(47, group_id=group, topics=topics), node)]
    return [*asks, Ask(build(47, group_id=nobody, topics=topics), coordinator(stage.target, nobody))]


def consumer_beat(group: str, member_id: str, epoch: int, **fields: Any) -> Any:
    """A ConsumerGroupHeartbeat (KIP-848) that says nothing but what is given."""
    said = {"rebalance_timeout_ms": -1, "subscribed_topic_names": None, "topic_partitions": None, **fields}
    return build(68, group_id=group, member_id=member_id, member_epoch=epoch, **said)


def consumer_group_heartbeat(stage: Stage, version: int) -> list[Ask]:
    group, member = unique("group"), "a-member"
    node = coordinator(stage.target, group)
    whole = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [stage.topic.name], "topic_partitions": []}
    requests = [
        consumer_beat(group, member, 1),  # no such group
        consumer_beat(group, member, -1),
        consumer_beat(group, member, 0),
        consumer_beat(group, "", 1),
        consumer_beat(group, member, -3),
        consumer_beat(group, member, -2),
        consumer_beat(group, member, 0, **{**whole, "server_assignor": "nobodys"}),
        consumer_beat(group, member, 0, **whole, instance_id="an-instance", rack_id="a-rack"),
        consumer_beat(group, member, 2, instance_id="an-instance"),
        consumer_beat(group, member, 9, instance_id="an-instance"),
        consumer_beat(group, "another", 2),
        consumer_beat(group, "another", 0, **whole, instance_id="an-instance"),
        consumer_beat(group, "another", 2, instance_id="an-instance"),
        consumer_beat(group, member, -2, instance_id="an-instance"),
        consumer_beat(group, "another", 0, **whole, instance_id="an-instance"),
        consumer_beat(group, "another", -1),
    ]
    if version >= 1:
        requests.append(consumer_beat(group, member, 0, **whole, subscribed_topic_regex="("))
    return [Ask(request, node) for request in requests]


def consumer_group_describe(stage: Stage, version: int) -> list[Ask]:
    group, member, nobody = unique("group"), stage.member(), unique("group")
    node = coordinator(stage.target, group)
    names = [MISSING]
    join = consumer_beat(
        group, "a-member", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=names, topic_partitions=[]
    )
    assert stage.target.ask(join, 1, node).error_code == 0
    return [
        Ask(build(69, group_ids=[group]), node),
        Ask(build(69, group_ids=[member.group]), coordinator(stage.target, member.group)),
        Ask(build(69, group_ids=[nobody]), coordinator(stage.target, nobody)),
        Ask(build(69, group_ids=[]), node),
    ]


def describe_client_quotas(stage: Stage, version: int) -> list[Ask]:
    components = [{"entity_type": "client-id", "match_type": 0, "match": "raw-nobody"}]
    return [Ask(build(48, components=components, strict=True))]


def alter_client_quotas(stage: Stage, version: int) -> list[Ask]:
    def ask(key: str, value: float, kind: str = "client-id", remove: bool = False) -> Ask:
        entity = [{"entity_type": kind, "entity_name": unique("client")}]
        entry = {"entity": entity, "ops": [{"key": key, "value": value, "remove": remove}]}
        return Ask(build(49, entries=[entry], validate_only=False))

    return [ask("producer_byte_rate", 1e9), ask("no_such_rate", 5.0), ask("producer_byte_rate", 5.0, kind="colour")]


def describe_cluster(stage: Stage, version: int) -> list[Ask]:
    return [Ask(build(60)), Ask(build(60, include_cluster_authorized_operations=True))]


def describe_producers(stage: Stage, version: int) -> list[Ask]:
    def ask(name: str, partition: int) -> Ask:
        return Ask(build(61, topics=[{"name": name, "partition_indexes": [partition]}]), stage.topic.leaders[0])

    return [ask(stage.topic.name, 0), ask(stage.topic.name, 9), ask(MISSING, 0)]


def unregister_broker(stage: Stage, version: int) -> list[Ask]:
    return [Ask(build(64, broker_id=77))]


def list_config_resources(stage: Stage, version: int) -> list[Ask]:
    return [Ask(build(74, resource_types=[TOPIC]) if version >= 1 else build(74))]


def describe_topic_partitions(stage: Stage, version: int) -> list[Ask]:
    topics = [{"name": stage.topic.name}, {"name": MISSING}]
    asks = [Ask(build(75, topics=topics, response_partition_limit=2000, cursor=None))]
    return [*asks, Ask(build(75, topics=topics[:1], response_partition_limit=1, cursor=None))]


def elect_leaders(stage: Stage, version: int) -> list[Ask]:
    def ask(name: str, partition: int, kind: int = 0) -> Ask:
        topics = [{"topic": name, "partitions": [partition]}]
        return Ask(build(43, election_type=kind, topic_partitions=topics, timeout_ms=9000))

    asks = [ask(stage.topic.name, 0), ask(stage.topic.name, 9), ask(MISSING, 0)]
    return [*asks, ask(stage.topic.name, 0, 1)] if version >= 1 else asks  # unclean (KIP-460)


def alter_reassignments(stage: Stage, version: int) -> list[Ask]:
    def ask(name: str, partition: int, replicas: list[int] | None, **fields: Any) -> Ask:
        topics = [{"name": name, "partitions": [{"partition_index": partition, "replicas": replicas}]}]
        return Ask(build(45, topics=topics, timeout_ms=9000, **fields))

    name = stage.topic.name
    asks = [ask(name, 0, [stage.topic.leaders[0]]), ask(name, 0, None), ask(name, 9, [0]), ask(MISSING, 0, [0])]
    asks += [ask(name, 0, []), ask(name, 0, [0, 0]), ask(name, 0, [77]), ask(name, 0, [-1]), ask(name, 9, None)]
    if version >= 1:  # KIP-860
        asks.append(ask(name, 0, [stage.topic.leaders[0]], allow_replication_factor_change=False))
    return asks


def list_reassignments(stage: Stage, version: int) -> list[Ask]:
    def ask(name: str, partition: int) -> Ask:
        topics = [{"name": name, "partition_indexes": [partition]}]
        return Ask(build(46, topics=topics, timeout_ms=9000))

    asks = [ask(stage.topic.name, 0), ask(stage.topic.name, 9), ask(MISSING, 0)]
    return [*asks, Ask(build(46, topics=None, timeout_ms=9000))]


def describe_quorum(stage: Stage, version: int) -> list[Ask]:
    def ask(*rows: tuple[str, list[int]]) -> Ask:
        topics = [
            {"topic_name": name, "partitions": [{"partition_index": n} for n in numbers]} for name, numbers in rows
        ]
        return Ask(build(55, topics=topics))

    log = "__cluster_metadata"
    return [
        ask((log, [0])),
        ask(),
        ask((log, [1])),
        ask((log, [0, 1])),
        ask((MISSING, [0])),
        ask((log, [0]), (log, [0])),
    ]


ANY_ACL = {"resource_type_filter": 1, "operation": 1, "permission_type": 1, "pattern_type_filter": 1}


def describe_acls(stage: Stage, version: int) -> list[Ask]:
    return [Ask(build(29, **ANY_ACL))]


def describe_user_scram_credentials(stage: Stage, version: int) -> list[Ask]:
    return [Ask(build(50, users=users)) for users in (None, [{"name": "nobody"}], [{"name": "a"}, {"name": "a"}])]


def sasl_handshake(stage: Stage, version: int) -> list[Ask]:
    """On a listener without SASL; test_sasl.py has the others."""
    return [Ask(build(17, mechanism=mechanism)) for mechanism in ("PLAIN", "")]


def sasl_authenticate(stage: Stage, version: int) -> list[Ask]:
    return [Ask(build(36, auth_bytes=token)) for token in (b"token", b"")]


def alter_user_scram_credentials(stage: Stage, version: int) -> list[Ask]:
    """Refused changes: other scripts want a cluster without users."""

    def ask(*changes: dict[str, Any]) -> Ask:
        deletions = [change for change in changes if len(change) == len(deletion())]
        return Ask(build(51, deletions=deletions, upsertions=[one for one in changes if one not in deletions]))

    def deletion(mechanism: int = 1) -> dict[str, Any]:
        return {"name": "nobody", "mechanism": mechanism}

    def upsertion(name: str = "nobody", iterations: int = 4096) -> dict[str, Any]:
        return {**deletion(), "name": name, "iterations": iterations, "salt": b"s", "salted_password": b"p" * 32}

    return [
        ask(),
        *(ask(deletion(mechanism)) for mechanism in (0, 1, 3)),
        *(ask(upsertion(iterations=iterations)) for iterations in (4095, 16_385)),
        ask(upsertion(name="")),
        ask(upsertion(), upsertion()),
        ask(deletion(), upsertion()),
    ]


def create_acls(stage: Stage, version: int) -> list[Ask]:
    fields = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
    acl = {"resource_name": stage.topic.name, "principal": "User:a", "host": "*", **fields}
    return [Ask(build(30, creations=[acl])), Ask(build(30, creations=[acl, acl])), Ask(build(30, creations=[]))]


def delete_acls(stage: Stage, version: int) -> list[Ask]:
    return [Ask(build(31, filters=filters)) for filters in ([ANY_ACL], [ANY_ACL, ANY_ACL], [])]


def settled(stage: Stage, ask: Ask, version: int) -> Any:
    """Sends one request; asks again while the coordinator's shard is still being loaded."""

    def answer() -> Any:
        reply = stage.target.ask(ask.request, version, ask.node)
        return None if error_codes(reply.to_dict(json=False)) & LOADING else reply

    return until(answer, f"{type(ask.request).__name__} v{version}")


def error_codes(value: Any) -> set[int]:
    """Every error code anywhere in an answer."""
    if isinstance(value, dict):
        own = {value["error_code"]} if "error_code" in value else set()
        return own.union(*(error_codes(item) for item in value.values()))
    if isinstance(value, list):
        return set[int]().union(*(error_codes(item) for item in value))
    return set()


ROWS: dict[int, Row] = {
    0: produce,
    1: fetch,
    2: list_offsets,
    3: metadata,
    8: offset_commit,
    9: offset_fetch,
    10: find_coordinator,
    11: join_group,
    12: heartbeat,
    13: leave_group,
    14: sync_group,
    15: describe_groups,
    16: list_groups,
    18: api_versions,
    19: create_topics,
    20: delete_topics,
    21: delete_records,
    22: init_producer_id,
    23: offset_for_leader_epoch,
    24: add_partitions_to_txn,
    25: add_offsets_to_txn,
    26: end_txn,
    27: write_txn_markers,
    28: txn_offset_commit,
    29: describe_acls,
    30: create_acls,
    31: delete_acls,
    32: describe_configs,
    33: alter_configs,
    34: alter_replica_log_dirs,
    35: describe_log_dirs,
    37: create_partitions,
    42: delete_groups,
    43: elect_leaders,
    44: incremental_alter_configs,
    45: alter_reassignments,
    46: list_reassignments,
    47: offset_delete,
    48: describe_client_quotas,
    50: describe_user_scram_credentials,
    17: sasl_handshake,
    36: sasl_authenticate,
    49: alter_client_quotas,
    51: alter_user_scram_credentials,
    55: describe_quorum,
    57: update_features,
    60: describe_cluster,
    61: describe_producers,
    64: unregister_broker,
    65: describe_transactions,
    66: list_transactions,
    68: consumer_group_heartbeat,
    69: consumer_group_describe,
    74: list_config_resources,
    75: describe_topic_partitions,
}
