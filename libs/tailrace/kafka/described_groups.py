"""Groups of either kind as one value: classic ones of DescribeGroups, consumer ones of ConsumerGroupDescribe."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from tailrace.kafka.consumer_protocol import partitions_of
from tailrace.kafka.ids import TopicPartition

CLASSIC: Final = "CLASSIC"
CONSUMER: Final = "CONSUMER"


class DescribedGroupMember(NamedTuple):
    """One member and what it reads."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    partitions: list[TopicPartition]


class DescribedGroup(NamedTuple):
    """One group; the state is in Kafka's words."""

    group_id: str
    state: str
    type: str
    protocol_type: str
    assignor: str
    members: list[DescribedGroupMember]


def constant_case(word: str) -> str:
    """A state or a type as the REST API has it: PreparingRebalance -> PREPARING_REBALANCE."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).upper()


def is_of_another_kind(message: str | None) -> bool:
    """Whether DescribeGroups did not find a group because it is no classic one, which Kafka says in words alone."""
    return message is not None and message.endswith(" is not a classic group.")


def of_classic(row: Any) -> DescribedGroup:
    """Reads a row of DescribeGroups."""
    members = [
        DescribedGroupMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            partitions_of(bytes(member.member_assignment or b"")),
        )
        for member in row.members
    ]
    return DescribedGroup(row.group_id, row.group_state, CLASSIC, row.protocol_type, row.protocol_data, members)


def of_consumer(row: Any) -> DescribedGroup:
    """Reads a row of ConsumerGroupDescribe."""
    members = [
        DescribedGroupMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            [(topic.topic_name, index) for topic in member.assignment.topic_partitions for index in topic.partitions],
        )
        for member in row.members
    ]
    return DescribedGroup(row.group_id, row.group_state, CONSUMER, "consumer", row.assignor_name, members)
