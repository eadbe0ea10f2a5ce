"""Refusals with a row for each of the request's, where Apache Kafka gives them so (test_authorizations.py asks it)."""

from __future__ import annotations

from tailrace.errors import ErrorCode
from tailrace.wire import messages as m
from tailrace.wire.apis import ApiKey
from tailrace.wire.refuse import refuse

CLUSTER, GROUP, TOPIC = (
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)


def test_each_partition_of_a_reassignment_is_refused() -> None:
    topic = m.AlterPartitionReassignmentsRequest.ReassignableTopic
    rows = [topic(name="t", partitions=[topic.ReassignablePartition(partition_index=3, replicas=[0])])]
    request = m.AlterPartitionReassignmentsRequest(topics=rows)
    answer = refuse(request, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, CLUSTER, "no")
    (row,) = answer.responses[0].partitions
    assert (answer.error_code, row.partition_index, row.error_code, row.error_message) == (CLUSTER, 3, CLUSTER, "no")


def test_an_offset_is_not_deleted_for_its_topic_or_for_its_group() -> None:
    topic = m.OffsetDeleteRequest.OffsetDeleteRequestTopic
    rows = [topic(name="t", partitions=[topic.OffsetDeleteRequestPartition(partition_index=3)])]
    request = m.OffsetDeleteRequest(group_id="g", topics=rows)
    of_topic = refuse(request, ApiKey.OFFSET_DELETE, 0, TOPIC, None)
    (row,) = of_topic.topics[0].partitions
    assert (of_topic.error_code, row.partition_index, row.error_code) == (0, 3, TOPIC)
    of_group = refuse(request, ApiKey.OFFSET_DELETE, 0, GROUP, None)
    assert (of_group.error_code, of_group.topics) == (GROUP, [])


def test_each_user_that_is_asked_for_is_refused() -> None:
    request = m.DescribeUserScramCredentialsRequest(users=[m.DescribeUserScramCredentialsRequest.UserName(name="u")])
    answer = refuse(request, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, CLUSTER, None)
    assert (answer.error_code, [(row.user, row.error_code) for row in answer.results]) == (CLUSTER, [("u", CLUSTER)])
    everyone = refuse(
        m.DescribeUserScramCredentialsRequest(users=None), ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, CLUSTER, None
    )
    assert everyone.results == []
