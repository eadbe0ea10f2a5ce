"""What raw scripts set up before they ask: topics, records, groups; all by the wire itself."""

import functools
import uuid
from dataclasses import dataclass
from typing import Any

from support.batches import batch
from support.raw import REQUESTS, Raw, build
from support.targets import Target
from support.waiting import until

PRODUCE, LIST_OFFSETS, METADATA, FIND_COORDINATOR = 0, 2, 3, 10
JOIN_GROUP, SYNC_GROUP, DESCRIBE_GROUPS, CREATE_TOPICS = 11, 14, 15, 19
LOADING = {14, 15, 16}  # what a coordinator says while its shard is on the way


def unique(word: str) -> str:
    """A name that no other test uses."""
    return f"{word}-{uuid.uuid4().hex[:10]}"


@dataclass(frozen=True)
class Topic:
    """A topic with leaders on all partitions."""

    target: Target
    name: str
    topic_id: uuid.UUID
    leaders: tuple[int, ...]

    def leader(self, partition: int = 0) -> Raw:
        """A connection to the partition's leader."""
        return self.target.raw(self.leaders[partition])

    def produce(self, data: bytes, *, partition: int = 0, acks: int = -1, version: int = 9) -> Any:
        """Produces the bytes of a batch; answers the partition's answer."""
        request = produce_request(self, data, partition=partition, acks=acks, version=version)
        with self.leader(partition) as connection:
            return connection.ask(request, version).responses[0].partition_responses[0]


def produce_request(topic: Topic, data: bytes | None, *, partition: int = 0, acks: int = -1, version: int = 9) -> Any:
    """A Produce request of one batch, by name up to v12 and by topic id from v13 (KIP-516)."""
    request = REQUESTS[PRODUCE]
    partitions = [request.TopicProduceData.PartitionProduceData(index=partition, records=data, version=version)]
    which = {"topic_id": topic.topic_id} if version >= 13 else {"name": topic.name}
    topics = [request.TopicProduceData(partition_data=partitions, version=version, **which)]
    return request(acks=acks, timeout_ms=10_000, topic_data=topics, version=version)


def create_topic(target: Target, *, partitions: int = 1, configs: dict[str, str] | None = None) -> Topic:
    """Creates a topic and waits until every node knows its leaders."""
    name = unique("topic")
    answer = target.ask(create_topics_request(name, partitions=partitions, configs=configs), 7)
    assert answer.topics[0].error_code == 0, answer.to_dict()
    return wait_for_topic(target, name)


def create_topics_request(
    name: str, *, partitions: int = 1, replication_factor: int = 1, configs: dict[str, str] | None = None
) -> Any:
    """A CreateTopics request for one topic."""
    request = REQUESTS[CREATE_TOPICS]
    entries = [request.CreatableTopic.CreatableTopicConfig(name=k, value=v) for k, v in (configs or {}).items()]
    topic = request.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replication_factor, assignments=[], configs=entries
    )
    return request(topics=[topic], timeout_ms=10_000, validate_only=False)


def metadata_request(*names: str, auto_create: bool = False) -> Any:
    """A Metadata request for these topics."""
    request = REQUESTS[METADATA]
    topics = [request.MetadataRequestTopic(name=name) for name in names]
    return request(topics=topics, allow_auto_topic_creation=auto_create)


def wait_for_topic(
    target: Target, name: str, *, partitions: int | None = None, former: uuid.UUID | None = None
) -> Topic:
    """Waits until every node answers with a leader for every partition.

    A node that has not heard of a change yet answers as before: `partitions` is how many there are now, `former` the
    id of the topic that had the name until now.
    """
    topic = None

    def seen(connection: Raw) -> Topic | None:
        found = _led_topic(target, connection, name)
        if found is None or found.topic_id == former or len(found.leaders) != (partitions or len(found.leaders)):
            return None
        return found

    for node in range(target.brokers):
        with target.raw(node) as connection:
            topic = until(functools.partial(seen, connection), f"leaders of {name} at node {node}")
    assert topic is not None
    for partition in range(len(topic.leaders)):  # metadata may name a leader that does not know it yet
        with topic.leader(partition) as connection:
            until(functools.partial(leads, connection, name, partition), f"{name}-{partition} at its leader")
    return topic


def leads(connection: Raw, name: str, partition: int = 0) -> bool:
    """Whether the node leads the partition: the log may be on its way yet when the topic is known."""
    row = {"partition_index": partition, "timestamp": -1, "current_leader_epoch": -1}
    request = build(LIST_OFFSETS, replica_id=-1, isolation_level=0, topics=[{"name": name, "partitions": [row]}])
    answer = connection.ask(request, 6)
    return bool(answer.topics[0].partitions[0].error_code == 0)


def _led_topic(target: Target, connection: Raw, name: str) -> Topic | None:
    row = connection.ask(metadata_request(name), 12).topics[0]
    if row.error_code or any(p.error_code or p.leader_id < 0 for p in row.partitions):
        return None
    leaders = {p.partition_index: p.leader_id for p in row.partitions}
    return Topic(target, name, row.topic_id, tuple(leaders[n] for n in sorted(leaders)))


def filled_topic(target: Target, *, partitions: int = 1, records: int = 3) -> Topic:
    """A topic whose partition 0 holds one batch of so many records, which are years old and stay there."""
    topic = create_topic(target, partitions=partitions, configs={"retention.ms": "-1"})
    answer = topic.produce(batch(*(b"value-%d" % n for n in range(records))))
    assert answer.error_code == 0, answer.to_dict()
    return topic


def coordinator(target: Target, group: str) -> int:
    """The node that coordinates the group; waits while the offsets topic is being created and its shard loaded."""
    request = REQUESTS[FIND_COORDINATOR](key=group, key_type=0)
    with target.raw() as connection:

        def ask() -> tuple[int] | None:
            answer = connection.ask(request, 2)
            if answer.error_code:
                return None
            described = target.ask(build(DESCRIBE_GROUPS, groups=[group]), 4, answer.node_id).groups[0]
            return None if described.error_code in LOADING else (answer.node_id,)

        return until(ask, f"coordinator of {group}")[0]


def join_request(group: str, **fields: Any) -> Any:
    """A JoinGroup request of a consumer that offers one protocol."""
    request = REQUESTS[JOIN_GROUP]
    defaults: dict[str, Any] = {
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [request.JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0\0\0\0\0\0\0\0")],
    }
    return request(group_id=group, **{**defaults, **fields})


@dataclass
class Member:
    """A member of a stable group of one, still connected."""

    connection: Raw
    group: str
    member_id: str
    generation_id: int


def joined(target: Target, group: str, **fields: Any) -> Member:
    """Joins and syncs as the only member of a group; the caller closes the connection."""
    node = coordinator(target, group)
    connection = target.raw(node)

    def join(member_id: str = "") -> Any:
        answer = connection.ask(join_request(group, member_id=member_id, **fields), 5)
        if answer.error_code == 79:  # MEMBER_ID_REQUIRED (KIP-394)
            return join(answer.member_id)
        return answer if answer.error_code not in LOADING else None

    answer = until(join, f"join of {group}")
    assert answer.error_code == 0, answer.to_dict()
    sync = REQUESTS[SYNC_GROUP]
    assignments = [sync.SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"mine")]
    request = sync(
        group_id=group, generation_id=answer.generation_id, member_id=answer.member_id, assignments=assignments
    )
    synced = connection.ask(request, 3)
    assert synced.error_code == 0, synced.to_dict()
    return Member(connection, group, answer.member_id, answer.generation_id)
