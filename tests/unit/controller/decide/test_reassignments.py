"""ElectLeaders and reassignments: what is recorded, and every answer that Kafka gives."""

from typing import Any

import pytest

from support.metadata import after, cluster, replicated, topic_id
from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata import records as r
from tailrace.metadata.image import MetadataImage, PartitionImage
from tailrace.wire.messages import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from tailrace_controller.decide import elect_leaders, reassignments

CONFIG = Config.load("controller", overrides={"min.insync.replicas": "2"})
IMAGE = after(cluster(5), *replicated("t", 1))
AWAY = after(cluster(5), *replicated("t", 1, isr=(1, 0), leader=1))
STUCK = after(cluster(5), *replicated("t", 1, isr=(), leader=-1), r.BrokerRegistrationChangeRecord(0, 10, fenced=1))


def part(image: MetadataImage, effects: Any) -> PartitionImage:
    found = after(image, *effects.records).partition("t", 0)
    assert found is not None
    return found


def elect(image: MetadataImage, kind: int, partitions: list[int] | None = None, name: str = "t") -> Any:
    asked = ElectLeadersRequest.TopicPartitions
    wanted = None if partitions is None else [asked(topic=name, partitions=partitions)]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout_ms=1)
    return elect_leaders.elect(image, request, CONFIG)


def elected(effects: Any) -> list[tuple[str, int, str]]:
    return [
        (topic.topic, row.partition_id, ErrorCode(row.error_code).name)
        for topic in effects.reply.replica_election_results
        for row in topic.partition_result
    ]


@pytest.mark.parametrize("partitions", [[0], None])
def test_the_preferred_leader_is_restored(partitions: list[int] | None) -> None:
    effects = elect(AWAY, elect_leaders.PREFERRED, partitions)
    assert (elected(effects), part(AWAY, effects).leader) == ([("t", 0, "NONE")], 0)


def test_an_unclean_election_is_done_whatever_the_topic_says() -> None:
    effects = elect(STUCK, elect_leaders.UNCLEAN, [0])
    found = part(STUCK, effects)
    assert (elected(effects), found.leader, found.leader_recovery_state) == ([("t", 0, "NONE")], 1, 1)


PREFERRED_FENCED = after(AWAY, r.BrokerRegistrationChangeRecord(0, 10, fenced=1))
ALL_FENCED = after(STUCK, *(r.BrokerRegistrationChangeRecord(n, 10 + n, fenced=1) for n in (1, 2)))


@pytest.mark.parametrize(
    ("image", "kind", "name", "index", "code"),
    [
        (IMAGE, elect_leaders.PREFERRED, "t", 0, "ELECTION_NOT_NEEDED"),
        (AWAY, elect_leaders.UNCLEAN, "t", 0, "ELECTION_NOT_NEEDED"),
        (PREFERRED_FENCED, elect_leaders.PREFERRED, "t", 0, "PREFERRED_LEADER_NOT_AVAILABLE"),
        (ALL_FENCED, elect_leaders.UNCLEAN, "t", 0, "ELIGIBLE_LEADERS_NOT_AVAILABLE"),
        (IMAGE, elect_leaders.PREFERRED, "t", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (IMAGE, elect_leaders.PREFERRED, "u", 0, "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_elections_that_cannot_be(image: MetadataImage, kind: int, name: str, index: int, code: str) -> None:
    effects = elect(image, kind, [index], name)
    assert (elected(effects), effects.records) == ([(name, index, code)], ())
    assert effects.reply.replica_election_results[0].partition_result[0].error_message


def test_asked_for_all_partitions_those_without_need_are_left_out() -> None:
    assert elected(elect(IMAGE, elect_leaders.PREFERRED)) == []


def test_an_unknown_type_of_election_is_refused() -> None:
    with pytest.raises(ApiError, match="Unknown election type 7"):
        elect(IMAGE, 7)


# -- reassignments ----------------------------------------------------------------------------------------------------


def move(
    image: MetadataImage, replicas: list[int] | None, index: int = 0, name: str = "t", *, version: int = 1, **more: bool
) -> Any:
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    rows = [topic.ReassignablePartition(partition_index=index, replicas=replicas)]
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=1,
        allow_replication_factor_change=more.get("allow", True),
        topics=[topic(name=name, partitions=rows)],
    )
    return reassignments.alter(image, request, version, CONFIG)


def answer(effects: Any) -> tuple[str, str | None]:
    ((row,),) = [topic.partitions for topic in effects.reply.responses]
    return ErrorCode(row.error_code).name, row.error_message


def ongoing(image: MetadataImage, asked: dict[str, list[int]] | None = None) -> list[Any]:
    topic = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    topics = None if asked is None else [topic(name=name, partition_indexes=rows) for name, rows in asked.items()]
    reply = reassignments.listed(image, ListPartitionReassignmentsRequest(timeout_ms=1, topics=topics))
    return [
        (found.name, row.partition_index, row.replicas, row.adding_replicas, row.removing_replicas)
        for found in reply.topics
        for row in found.partitions
    ]


def test_a_reassignment_begins_with_old_and_new_replicas_and_is_listed() -> None:
    effects = move(IMAGE, [3, 4, 0])
    found = part(IMAGE, effects)
    assert answer(effects) == ("NONE", None)
    assert (found.replicas, found.adding_replicas, found.removing_replicas) == ((3, 4, 0, 1, 2), (3, 4), (1, 2))
    assert (found.leader, found.isr, found.leader_epoch) == (0, (0, 1, 2), 0)
    image = after(IMAGE, *effects.records)
    expected = [("t", 0, [3, 4, 0, 1, 2], [3, 4], [1, 2])]
    assert ongoing(image) == ongoing(image, {"t": [0, 7], "u": [0]}) == expected
    assert ongoing(IMAGE) == []


def test_a_new_order_is_complete_at_once_and_moves_no_leader() -> None:
    found = part(IMAGE, move(IMAGE, [2, 1, 0]))
    assert (found.replicas, found.leader, found.leader_epoch) == ((2, 1, 0), 0, 0)


def test_fewer_replicas_that_are_all_in_sync_are_complete_at_once_with_a_new_leader_epoch() -> None:
    found = part(IMAGE, move(IMAGE, [0, 1]))
    assert (found.replicas, found.isr, found.leader, found.leader_epoch) == ((0, 1), (0, 1), 0, 1)
    elsewhere = part(IMAGE, move(IMAGE, [1, 2]))
    assert (elsewhere.replicas, elsewhere.leader, elsewhere.removing_replicas) == ((1, 2), 1, ())


MOVING = after(IMAGE, *move(IMAGE, [3, 4, 0]).records)


def test_cancelling_takes_the_added_replicas_away() -> None:
    found = part(MOVING, move(MOVING, None))
    assert (found.replicas, found.isr, found.adding_replicas, found.removing_replicas) == (
        (0, 1, 2),
        (0, 1, 2),
        (),
        (),
    )
    joined = after(MOVING, r.PartitionChangeRecord(0, topic_id(1), isr=(0, 3)))
    assert part(joined, move(joined, None)).isr == (0,)


ONLY_NEW = after(MOVING, r.PartitionChangeRecord(0, topic_id(1), isr=(3,), leader=3))


def test_cancelling_where_only_new_replicas_are_in_sync_needs_an_unclean_election() -> None:
    effects = move(ONLY_NEW, None)
    assert answer(effects)[0] == "INVALID_REPLICA_ASSIGNMENT"
    assert "it would require an unclean leader election." in (answer(effects)[1] or "")
    allowed = after(ONLY_NEW, r.ConfigRecord(2, "t", "unclean.leader.election.enable", "true"))
    assert part(allowed, move(allowed, None)).leader == 0


@pytest.mark.parametrize(
    ("effects", "code", "message"),
    [
        (lambda: move(IMAGE, None), "NO_REASSIGNMENT_IN_PROGRESS", "No partition reassignment is in progress."),
        (lambda: move(IMAGE, [0], name="u"), "UNKNOWN_TOPIC_OR_PARTITION", "Unable to find a topic named u."),
        (lambda: move(IMAGE, [0], 5), "UNKNOWN_TOPIC_OR_PARTITION", "Unable to find partition t:5."),
        (lambda: move(IMAGE, []), "INVALID_REPLICA_ASSIGNMENT", "includes an empty replica list."),
        (lambda: move(IMAGE, [0, 9]), "INVALID_REPLICA_ASSIGNMENT", "broker 9, but no such broker is registered."),
        (lambda: move(IMAGE, [0, 0]), "INVALID_REPLICA_ASSIGNMENT", "includes the broker 0 more than once."),
        (lambda: move(IMAGE, [0, 1], allow=False), "INVALID_REPLICATION_FACTOR", "is changed from 3 to 2"),
        (lambda: move(MOVING, [0, 1], allow=False), "INVALID_REPLICATION_FACTOR", "is changed from 3 to 2"),
    ],
)
def test_reassignments_are_refused_as_kafka_does(effects: Any, code: str, message: str) -> None:
    found = effects()
    assert found.records == ()
    assert answer(found)[0] == code
    assert message in (answer(found)[1] or "")


def test_version_zero_may_always_change_the_replication_factor() -> None:
    assert answer(move(IMAGE, [0, 1], version=0, allow=False)) == ("NONE", None)


def test_a_reassignment_may_be_changed_while_it_is_under_way() -> None:
    found = part(MOVING, move(MOVING, [3, 1, 0]))
    assert (found.replicas, found.removing_replicas) == ((3, 1, 0, 2, 4), (2, 4))
    assert set(found.adding_replicas) >= {3}
