"""A replicated topic as a wire client sees it at every node: leader, ISR, ELR, offsets, epochs."""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from support.batches import batch
from support.nodes import Nodes
from support.raw import Raw, build
from support.stage import unique
from support.waiting import HUNG_S, until

PRODUCE, FETCH, LIST_OFFSETS, CREATE_TOPICS, DELETE_TOPICS, EPOCHS, CONFIGS = 0, 1, 2, 19, 20, 23, 44
DESCRIBE_CONFIGS = 32
ELECT_LEADERS, REASSIGN, LIST_REASSIGNMENTS, DESCRIBE_TOPICS = 43, 45, 46, 75
EARLIEST, LATEST = -2, -1
TOPIC, BROKER = 2, 4
DYNAMIC = (1, 2)  # sources of configs that AlterConfigs set for a topic, for a broker
PREFERRED, UNCLEAN = 0, 1
ROUND = ([0, 1, 2], [1, 2, 0], [2, 0, 1])  # three partitions on three nodes, each led by another
BASE_OFFSET, BATCH_LENGTH = struct.Struct(">q"), struct.Struct(">i")


@dataclass(frozen=True)
class State:
    """What DescribeTopicPartitions (KIP-966) says of a partition; -1 is no leader."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: Set[int]
    elr: Set[int]
    last_known_elr: Set[int]
    offline: Set[int]


@dataclass(frozen=True)
class Pending:
    """A request whose answer has not been read."""

    connection: Raw
    correlation_id: int
    version: int

    def answer(self) -> Any:
        """Waits for the partition's answer."""
        return self.connection.receive(PRODUCE, self.version, self.correlation_id).responses[0].partition_responses[0]


class Replicated:
    """One topic with given replicas."""

    def __init__(self, nodes: Nodes, name: str, topic_id: uuid.UUID) -> None:
        self.nodes, self.name, self.topic_id = nodes, name, topic_id

    # -- what the nodes say ---------------------------------------------------------------------------------------

    def states(self, node: int) -> list[State]:
        """All partitions as one node knows them."""
        request = build(DESCRIBE_TOPICS, topics=[{"name": self.name}], response_partition_limit=2000, cursor=None)
        topic = self.nodes.ask(node, request, 0).topics[0]
        if topic.error_code:
            return []
        return [_state(row) for row in sorted(topic.partitions, key=lambda row: row.partition_index)]

    def state(self, partition: int = 0) -> State:
        """A partition as the first live node knows it."""
        return self.states(self.nodes.live()[0])[partition]

    def wait(self, wanted: Callable[[State], bool], what: str, partition: int = 0, timeout_s: float = HUNG_S) -> State:
        """Waits until every live node says so; answers the last node's state."""
        state: State | None = None

        def seen(node: int) -> bool:
            nonlocal state
            found = self.states(node)
            state = found[partition] if len(found) > partition else None
            return state is not None and wanted(state)

        for node in self.nodes.live():
            try:
                until(lambda node=node: seen(node), what, timeout_s)  # type: ignore[misc]
            except TimeoutError:
                raise TimeoutError(f"{what}: node {node} says {state} of {self.name}-{partition}") from None
        assert state is not None
        return state

    def wait_for_isr(self, *isr: int, partition: int = 0) -> State:
        """Waits until every live node says that these and no others are in sync."""
        return self.wait(lambda state: state.isr == set(isr), f"ISR {set(isr)}", partition)

    def wait_for_leader(self, leader: int, partition: int = 0) -> State:
        """Waits until every live node names this leader."""
        return self.wait(lambda state: state.leader == leader, f"leader {leader}", partition)

    # -- data -----------------------------------------------------------------------------------------------------

    def produce_request(
        self, *values: bytes, partition: int, acks: int, timeout_ms: int, by_id: bool = False, **fields: int
    ) -> Any:
        """One batch for one partition."""
        which: dict[str, Any] = {"topic_id": self.topic_id} if by_id else {"name": self.name}
        row = {"index": partition, "records": batch(*values, **fields)}
        topics = [{**which, "partition_data": [row]}]
        return build(PRODUCE, transactional_id=None, acks=acks, timeout_ms=timeout_ms, topic_data=topics)

    @contextmanager
    def producing(
        self,
        *values: bytes,
        partition: int = 0,
        acks: int = -1,
        timeout_ms: int = 10_000,
        node: int | None = None,
        version: int = 11,
        **fields: int,
    ) -> Iterator[Pending]:
        """Sends a batch; its answer is read later."""
        request = self.produce_request(
            *values, partition=partition, acks=acks, timeout_ms=timeout_ms, by_id=version >= 13, **fields
        )
        leader = self.state(partition).leader if node is None else node
        with self.nodes.raw(leader, timeout_s=30) as connection:
            yield Pending(connection, connection.send(request, version), version)

    def produce(self, *values: bytes, **options: Any) -> Any:
        """The answer for a batch."""
        with self.producing(*values, **options) as pending:
            return pending.answer()

    def append(self, *values: bytes, **options: Any) -> int:
        """Produces until it is acknowledged once; answers the base offset."""

        def ask() -> Any:
            answer = self.produce(*values, **options)
            return answer if answer.error_code == 0 else None

        return int(until(ask, "an acknowledgement").base_offset)

    def fetch_request(
        self, offset: int, *, partition: int = 0, rack: str = "", max_wait_ms: int = 0, by_id: bool = False, **row: int
    ) -> Any:
        """One partition, outside of a session."""
        rows = [{"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **row}]
        which: dict[str, Any] = {"topic_id": self.topic_id} if by_id else {"topic": self.name}
        limits = {"max_wait_ms": max_wait_ms, "min_bytes": 1, "max_bytes": 1 << 20}
        session = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": []}
        who = {} if by_id else {"replica_id": -1}
        return build(FETCH, **who, rack_id=rack, topics=[{**which, "partitions": rows}], **limits, **session)

    def fetch(self, offset: int, *, node: int | None = None, version: int = 12, partition: int = 0, **row: Any) -> Any:
        """The partition's answer, from its leader unless a node is named."""
        leader = self.state(partition).leader if node is None else node
        request = self.fetch_request(offset, partition=partition, by_id=version >= 13, **row)
        return self.nodes.ask(leader, request, version).responses[0].partitions[0]

    def read(self, *, node: int | None = None, partition: int = 0) -> list[tuple[int, bytes]]:
        """Every visible record as (offset, value); the tests' batches are not compressed.

        A leader that is new may be told in Metadata before it acts, and have no end offset yet (KIP-207): it is asked
        for one first.
        """
        if node is None:
            until(lambda: self.list_offset(partition=partition).error_code == 0, f"an end offset of {self.name}")
        found: list[tuple[int, bytes]] = []
        while True:
            answer = self.fetch(found[-1][0] + 1 if found else 0, node=node, partition=partition)
            assert answer.error_code == 0, answer.to_dict()
            if not answer.records:
                return found
            found += values_of(bytes(answer.records))

    def list_offset_request(self, timestamp: int, *, partition: int = 0, epoch: int = -1) -> Any:
        """One partition."""
        row = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": epoch}
        return build(LIST_OFFSETS, replica_id=-1, isolation_level=0, topics=[{"name": self.name, "partitions": [row]}])

    def list_offset(
        self, timestamp: int = LATEST, *, node: int | None = None, partition: int = 0, epoch: int = -1
    ) -> Any:
        """The partition's answer to ListOffsets."""
        request = self.list_offset_request(timestamp, partition=partition, epoch=epoch)
        leader = self.state(partition).leader if node is None else node
        return self.nodes.ask(leader, request, 6).topics[0].partitions[0]

    def epoch_end(self, leader_epoch: int, *, current: int = -1, node: int | None = None, partition: int = 0) -> Any:
        """The partition's answer to OffsetForLeaderEpoch."""
        row = {"partition": partition, "current_leader_epoch": current, "leader_epoch": leader_epoch}
        request = build(EPOCHS, replica_id=-1, topics=[{"topic": self.name, "partitions": [row]}])
        leader = self.state(partition).leader if node is None else node
        return self.nodes.ask(leader, request, 4).topics[0].partitions[0]

    def delete(self) -> None:
        """Removes the topic."""
        request = build(DELETE_TOPICS, topic_names=[self.name], timeout_ms=10_000)
        self.nodes.ask(self.nodes.live()[0], request, 5)


def _state(row: Any) -> State:
    groups = (row.isr_nodes, row.eligible_leader_replicas, row.last_known_elr, row.offline_replicas)
    isr, elr, last_known, offline = (frozenset(group or ()) for group in groups)
    return State(row.leader_id, row.leader_epoch, tuple(row.replica_nodes), isr, elr, last_known, offline)


def values_of(data: bytes) -> list[tuple[int, bytes]]:
    """(offset, value) of every record in whole batches of short records, as support.batches writes them."""
    found: list[tuple[int, bytes]] = []
    while len(data) > 61:
        size = 12 + BATCH_LENGTH.unpack_from(data, 8)[0]
        if size > len(data):
            break
        base = BASE_OFFSET.unpack_from(data)[0]
        found += [(base + n, value) for n, value in enumerate(_values(data[61:size]))]
        data = data[size:]
    return found


def _values(records: bytes) -> Iterator[bytes]:
    while records:
        length, rest = _varint(records)
        record, records = rest[:length], rest[length:]
        _, fields = _varint(record[1:])  # attributes are one byte; then the deltas
        _, fields = _varint(fields)
        _, fields = _varint(fields)  # no key: -1
        size, fields = _varint(fields)
        yield fields[:size]


def _varint(data: bytes) -> tuple[int, bytes]:
    value = shift = at = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), data[at:]


def create(nodes: Nodes, *assignment: Sequence[int], word: str = "replicated", **configs: str) -> Replicated:
    """A topic whose partition n has the replicas assignment[n]; min_insync_replicas="2" is a config of it.

    Returns when every live node names a leader for every partition and that leader answers.
    """
    name = unique(word)
    rows = [{"partition_index": n, "broker_ids": list(ids)} for n, ids in enumerate(assignment)]
    entries = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topic = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": rows, "configs": entries}
    request = build(CREATE_TOPICS, topics=[topic], timeout_ms=10_000, validate_only=False)
    answer = nodes.ask(nodes.live()[0], request, 7).topics[0]
    assert answer.error_code == 0, answer.to_dict()
    made = Replicated(nodes, name, answer.topic_id)
    for partition, ids in enumerate(assignment):
        made.wait(lambda state, ids=ids: state.leader in ids, f"a leader among {ids}", partition)  # type: ignore[misc]
        until(lambda p=partition: made.list_offset(partition=p).error_code == 0, f"offsets of {name}")  # type: ignore[misc]
    return made


def alter_configs(nodes: Nodes, resource_type: int, name: str, **configs: str | None) -> None:
    """Sets configs, or deletes those that are None; underscores stand for dots.

    Returns when every live node that the configs concern describes them so: what it is asked next meets them.
    """
    wanted = {re.sub("_", ".", key): value for key, value in configs.items()}
    rows = [{"name": key, "config_operation": int(value is None), "value": value} for key, value in wanted.items()]
    resource = {"resource_type": resource_type, "resource_name": name, "configs": rows}
    node = int(name) if resource_type == BROKER else nodes.live()[0]
    answer = nodes.ask(node, build(CONFIGS, resources=[resource], validate_only=False), 1)
    assert answer.responses[0].error_code == 0, answer.to_dict()
    for each in [node] if resource_type == BROKER else nodes.live():
        until(lambda each=each: _has(nodes, each, resource_type, name, wanted), f"configs of {name} at node {each}")  # type: ignore[misc]


def _has(nodes: Nodes, node: int, resource_type: int, name: str, wanted: dict[str, str | None]) -> bool:
    """Whether the node describes these as the resource's own; None is for those that are not."""
    resource = {"resource_type": resource_type, "resource_name": name, "configuration_keys": list(wanted)}
    (found,) = nodes.ask(node, build(DESCRIBE_CONFIGS, resources=[resource]), 4).results
    own = {row.name: row.value for row in found.configs if row.config_source in DYNAMIC}
    return all(own.get(key) == value for key, value in wanted.items())
