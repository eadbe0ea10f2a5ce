"""Refusals of the APIs about topics, their records and their replicas."""

from __future__ import annotations

from tailrace.wire import messages as m
from tailrace.wire.refuse.partitions import by_partition


def produce(request: m.ProduceRequest, version: int, code: int, message: str | None) -> m.ProduceResponse:
    topic = m.ProduceResponse.TopicProduceResponse
    partition = topic.PartitionProduceResponse
    return m.ProduceResponse(
        responses=[
            topic(
                name=asked.name,
                topic_id=asked.topic_id,
                partition_responses=[
                    partition(
                        index=p.index, error_code=code, base_offset=-1, log_start_offset=-1, error_message=message
                    )
                    for p in asked.partition_data
                ],
            )
            for asked in request.topic_data
        ]
    )


def fetch(request: m.FetchRequest, version: int, code: int, message: str | None) -> m.FetchResponse:
    return m.FetchResponse(error_code=code, session_id=0, responses=[])


def list_offsets(request: m.ListOffsetsRequest, version: int, code: int, message: str | None) -> m.ListOffsetsResponse:
    return by_partition(
        m.ListOffsetsResponse,
        m.ListOffsetsResponse.ListOffsetsTopicResponse,
        m.ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse,
        "partition_index",
    )(request, version, code, message)


def metadata(request: m.MetadataRequest, version: int, code: int, message: str | None) -> m.MetadataResponse:
    one = m.MetadataResponse.MetadataResponseTopic
    # A request may have null names before an answer may.
    return m.MetadataResponse(
        error_code=code if version >= 13 else 0,
        brokers=[],
        topics=[
            one(name=t.name or "", topic_id=t.topic_id, error_code=code, partitions=[]) for t in request.topics or ()
        ],
    )


def create_topics(
    request: m.CreateTopicsRequest, version: int, code: int, message: str | None
) -> m.CreateTopicsResponse:
    one = m.CreateTopicsResponse.CreatableTopicResult
    return m.CreateTopicsResponse(
        topics=[one(name=t.name, error_code=code, error_message=message, configs=[]) for t in request.topics]
    )


def delete_topics(
    request: m.DeleteTopicsRequest, version: int, code: int, message: str | None
) -> m.DeleteTopicsResponse:
    one = m.DeleteTopicsResponse.DeletableTopicResult
    if version >= 6:
        rows = [one(name=t.name, topic_id=t.topic_id, error_code=code, error_message=message) for t in request.topics]
    else:
        rows = [one(name=name, error_code=code, error_message=message) for name in request.topic_names]
    return m.DeleteTopicsResponse(responses=rows)


def create_partitions(
    request: m.CreatePartitionsRequest, version: int, code: int, message: str | None
) -> m.CreatePartitionsResponse:
    one = m.CreatePartitionsResponse.CreatePartitionsTopicResult
    return m.CreatePartitionsResponse(
        results=[one(name=t.name, error_code=code, error_message=message) for t in request.topics]
    )


def describe_topic_partitions(
    request: m.DescribeTopicPartitionsRequest, version: int, code: int, message: str | None
) -> m.DescribeTopicPartitionsResponse:
    one = m.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
    return m.DescribeTopicPartitionsResponse(
        topics=[one(name=t.name, error_code=code, partitions=[]) for t in request.topics], next_cursor=None
    )


def describe_producers(
    request: m.DescribeProducersRequest, version: int, code: int, message: str | None
) -> m.DescribeProducersResponse:
    topic = m.DescribeProducersResponse.TopicResponse
    build = by_partition(
        m.DescribeProducersResponse, topic, topic.PartitionResponse, "partition_index", active_producers=[]
    )
    return build(request, version, code, message)


def elect_leaders(
    request: m.ElectLeadersRequest, version: int, code: int, message: str | None
) -> m.ElectLeadersResponse:
    """v0 has no error code of its own: every partition carries it."""
    topic = m.ElectLeadersResponse.ReplicaElectionResult
    row = topic.PartitionResult
    return m.ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            topic(
                topic=asked.topic,
                partition_result=[
                    row(partition_id=index, error_code=code, error_message=message) for index in asked.partitions
                ],
            )
            for asked in request.topic_partitions or ()
        ],
    )


def alter_partition_reassignments(
    request: m.AlterPartitionReassignmentsRequest, version: int, code: int, message: str | None
) -> m.AlterPartitionReassignmentsResponse:
    topic = m.AlterPartitionReassignmentsResponse.ReassignableTopicResponse
    row = topic.ReassignablePartitionResponse
    return m.AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=message,
        responses=[
            topic(
                name=asked.name,
                partitions=[
                    row(partition_index=one.partition_index, error_code=code, error_message=message)
                    for one in asked.partitions
                ],
            )
            for asked in request.topics
        ],
    )


def alter_replica_log_dirs(
    request: m.AlterReplicaLogDirsRequest, version: int, code: int, message: str | None
) -> m.AlterReplicaLogDirsResponse:
    topic = m.AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
    row = topic.AlterReplicaLogDirPartitionResult
    return m.AlterReplicaLogDirsResponse(
        results=[
            topic(topic_name=t.name, partitions=[row(partition_index=p, error_code=code) for p in t.partitions])
            for asked in request.dirs
            for t in asked.topics
        ]
    )
