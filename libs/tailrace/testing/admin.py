"""What a test changes in a cluster: topics, leaders, members of groups. Each question has a connection of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

if TYPE_CHECKING:
    from tailrace.wire.messages import ApiMessage

_TIMEOUT_MS: Final = 30_000
_NO_ID: Final = UUID(int=0)  # of a topic that is named
_PAUSE_S: Final = 0.02
_TIMES_MAX: Final = 6000  # two minutes and more
# The active controller, a group's coordinator or an open log dir may be away for a moment; nothing was done then.
_NOT_YET: Final = {"NOT_CONTROLLER", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"}


class Refused(RuntimeError):
    """The cluster's answer has an error."""


def ask(bootstrap: str, message: ApiMessage, version: int | None = None) -> Any:
    """Blocks until the answer is there, also where this thread has a running event loop. Raises Refused."""
    from tailrace.errors import ErrorCode
    from tailrace.wire.response_errors import response_errors

    for _ in range(_TIMES_MAX):
        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(asyncio.run, _exchange(bootstrap, message, version)).result()
        codes = {ErrorCode(error.code).name for error in response_errors(message.API_KEY, answer)}
        if not codes:
            return answer
        if not codes <= _NOT_YET:
            break
        threading.Event().wait(_PAUSE_S)
    raise Refused(f"{type(message).__name__}: {', '.join(sorted(codes))}")


async def _exchange(bootstrap: str, message: ApiMessage, version: int | None) -> Any:
    from tailrace.net.address import Address
    from tailrace.net.client import Client

    client = Client(Address.parse(bootstrap), "tailrace-testing")
    try:
        await client.connect(_TIMEOUT_MS)
        return await client.ask(message, timeout_ms=_TIMEOUT_MS, version=version)
    finally:
        await client.close()


def until(holds: Callable[[], bool], what: str) -> None:
    """Asks again until it holds: a client of a cluster gets no event for it. Raises TimeoutError."""
    for _ in range(_TIMES_MAX):
        if holds():
            return
        threading.Event().wait(_PAUSE_S)
    raise TimeoutError(what)


def create_topic(bootstrap: str, name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None:
    """Returns when each partition has a leader."""
    from tailrace.wire import messages as m

    row = m.CreateTopicsRequest.CreatableTopic
    wanted = row(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[],
        configs=[row.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    ask(bootstrap, m.CreateTopicsRequest(topics=[wanted], timeout_ms=_TIMEOUT_MS, validate_only=False), 7)
    until(lambda: _has_leaders(bootstrap, name), f"leaders of {name}")


def delete_topic(bootstrap: str, name: str) -> None:
    """Nothing happens if it is gone already."""
    from tailrace.wire import messages as m

    row = m.DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=_NO_ID)
    try:
        ask(bootstrap, m.DeleteTopicsRequest(topics=[row], timeout_ms=_TIMEOUT_MS), 6)
    except Refused as refused:
        if "UNKNOWN_TOPIC_OR_PARTITION" not in str(refused):
            raise


def partitions(bootstrap: str, topic: str) -> list[Any]:
    """Rows of Metadata by partition: leader_id, replica_nodes, isr_nodes; none while the topic is unknown."""
    from tailrace.wire import messages as m

    row = m.MetadataRequest.MetadataRequestTopic(topic_id=_NO_ID, name=topic)
    try:
        answer = ask(bootstrap, m.MetadataRequest(topics=[row], allow_auto_topic_creation=False), 12)
    except Refused:
        return []
    return sorted(answer.topics[0].partitions, key=lambda part: int(part.partition_index))


def partition(bootstrap: str, topic: str, index: int) -> Any:
    """One row of partitions(). Raises ValueError with what exists."""
    rows = partitions(bootstrap, topic)
    if not rows:
        from tailrace.wire import messages as m

        known = sorted(row.name for row in ask(bootstrap, m.MetadataRequest(topics=None), 12).topics)
        raise ValueError(f"there is no topic {topic!r}, only {', '.join(known) or 'none at all'}")
    for row in rows:
        if row.partition_index == index:
            return row
    raise ValueError(f"{topic} has no partition {index}, only 0 to {len(rows) - 1}")


def _has_leaders(bootstrap: str, topic: str) -> bool:
    rows = partitions(bootstrap, topic)
    return bool(rows) and all(row.leader_id >= 0 for row in rows)


def move_leader(bootstrap: str, topic: str, index: int, broker: int) -> None:
    """Makes a replica the preferred one, elects it, and returns when clients see it. Raises ValueError."""
    from tailrace.wire import messages as m

    row = partition(bootstrap, topic, index)
    if broker not in row.replica_nodes:
        raise ValueError(f"broker {broker} has no replica of {topic}-{index}, only {list(row.replica_nodes)}")
    order = [broker, *(node for node in row.replica_nodes if node != broker)]
    moved = m.AlterPartitionReassignmentsRequest.ReassignableTopic
    wanted = moved(name=topic, partitions=[moved.ReassignablePartition(partition_index=index, replicas=order)])
    ask(bootstrap, m.AlterPartitionReassignmentsRequest(topics=[wanted], timeout_ms=_TIMEOUT_MS), 0)
    elected = m.ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[index])
    request = m.ElectLeadersRequest(election_type=0, topic_partitions=[elected], timeout_ms=_TIMEOUT_MS)

    def leads() -> bool:
        if partition(bootstrap, topic, index).leader_id == broker:
            return True
        try:
            ask(bootstrap, request, 2)
        except Refused as refused:  # it is out of the ISR for a moment, or was elected meanwhile
            if not {"PREFERRED_LEADER_NOT_AVAILABLE", "ELECTION_NOT_NEEDED"} & set(str(refused).split(": ")):
                raise
        return False

    until(leads, f"broker {broker} leads {topic}-{index}")


def is_fenced(bootstrap: str, broker: int) -> bool:
    """Whether the controller has taken a broker's leaders away (KIP-1073 shows such brokers)."""
    from tailrace.wire import messages as m

    answer = ask(bootstrap, m.DescribeClusterRequest(include_fenced_brokers=True, endpoint_type=1), 2)
    return any(row.broker_id == broker and row.is_fenced for row in answer.brokers)


def remove_members(bootstrap: str, group: str) -> int:
    """Takes every member out of a classic group, as a session timeout does; returns how many there were."""
    from tailrace.wire import messages as m

    (found,) = ask(bootstrap, m.FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4).coordinators
    host, _, port = bootstrap.rpartition(":")
    coordinator = f"{host}:{int(port) + found.node_id}"  # what is advertised may be a proxy that a test has cut
    (described,) = ask(coordinator, m.DescribeGroupsRequest(groups=[group]), 5).groups
    row = m.LeaveGroupRequest.MemberIdentity
    members = [row(member_id=member.member_id, reason="session expired by a test") for member in described.members]
    if members:
        ask(coordinator, m.LeaveGroupRequest(group_id=group, members=members), 5)
    return len(members)


def set_broker_configs(bootstrap: str, broker: int, configs: Mapping[str, str | None]) -> None:
    """Dynamic configs of one broker; None goes back to what the broker was started with."""
    from tailrace.kafka.resources import ConfigResource
    from tailrace.wire import messages as m

    row = m.IncrementalAlterConfigsRequest.AlterConfigsResource
    changes = [
        row.AlterableConfig(name=key, config_operation=int(value is None), value=value)
        for key, value in configs.items()
    ]
    wanted = row(resource_type=ConfigResource.BROKER, resource_name=str(broker), configs=changes)
    ask(bootstrap, m.IncrementalAlterConfigsRequest(resources=[wanted], validate_only=False), 1)
