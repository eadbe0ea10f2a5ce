"""Log directories in the controller (KIP-858): where replicas lie, and what moves when one is offline."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from support.metadata import CLUSTER_ID, after, cluster, replicated, topic_id
from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata import records as r
from tailrace.metadata.directories import LOST, MIGRATING, UNASSIGNED
from tailrace.metadata.image import MetadataImage, PartitionImage
from tailrace.wire.messages import (
    AlterPartitionReassignmentsRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
)
from tailrace_controller.decide import (
    assign_replicas,
    brokers,
    create_partitions,
    create_topics,
    elections,
    reassignments,
)

CONFIG = Config.load("controller", overrides={"min.insync.replicas": "1"})


def directory(broker_id: int, number: int = 0) -> UUID:
    return UUID(int=1000 + 10 * broker_id + number)


def register(image: MetadataImage, broker_id: int, *log_dirs: UUID, incarnation: int = 9000) -> MetadataImage:
    request = BrokerRegistrationRequest(
        broker_id=broker_id, cluster_id=CLUSTER_ID, incarnation_id=UUID(int=incarnation + broker_id), listeners=[],
        features=[], rack=None, log_dirs=list(log_dirs), previous_broker_epoch=-1,
    )  # fmt: skip
    image = after(image, *brokers.register(image, request, CONFIG, is_connected=False).records)
    return after(image, *beat(image, broker_id).records)


def beat(image: MetadataImage, broker_id: int, *offline: UUID, want_shut_down: bool = False) -> Any:
    request = BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=image.brokers[broker_id].broker_epoch,
        current_metadata_offset=1 << 40,
        want_fence=False,
        want_shut_down=want_shut_down,
        offline_log_dirs=list(offline),
    )
    return brokers.heartbeat(image, image, request, CONFIG)


def assign(image: MetadataImage, broker_id: int, *rows: tuple[UUID, UUID, int], epoch: int = -1) -> Any:
    data = AssignReplicasToDirsRequest.DirectoryData
    topic = data.TopicData
    request = AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=image.brokers[broker_id].broker_epoch if epoch < 0 else epoch,
        directories=[
            data(id=one, topics=[topic(topic_id=topic_key, partitions=[topic.PartitionData(partition_index=index)])])
            for one, topic_key, index in rows
        ],
    )
    return assign_replicas.assign(image, request, CONFIG)


def part(image: MetadataImage, index: int = 0, name: str = "t") -> PartitionImage:
    found = image.partition(name, index)
    assert found is not None
    return found


def three(count: int = 2) -> MetadataImage:
    """Three brokers with two dirs each, and t's replicas on the first dir, but for broker 0's of partition 1."""
    image = after(cluster(3), *replicated("t", 1))
    for broker_id in range(3):
        image = register(image, broker_id, directory(broker_id), directory(broker_id, 1))
    rows = [
        r.PartitionRecord(
            index, topic_id(1), (0, 1, 2), (0, 1, 2), 0, 5, 5,
            directories=(directory(0, index), directory(1), directory(2)),
        )
        for index in range(count)
    ]  # fmt: skip
    return after(image, *rows)


def test_a_failed_dir_costs_its_partitions_their_leader_and_no_others() -> None:
    image = three()
    image = after(image, *beat(image, 0, directory(0)).records)
    assert (part(image).leader, part(image).isr, part(image).leader_epoch) == (1, (1, 2), 6)
    assert (part(image, 1).leader, part(image, 1).isr) == (0, (0, 1, 2))
    assert image.brokers[0].log_dirs == (directory(0, 1),)
    assert not image.brokers[0].fenced


def test_a_failed_dir_is_news_once() -> None:
    image = three()
    image = after(image, *beat(image, 0, directory(0)).records)
    assert beat(image, 0, directory(0)).records == ()
    assert beat(image, 0, directory(0), UUID(int=77)).records == ()


def test_a_follower_whose_dir_failed_leaves_the_isr() -> None:
    image = three()
    image = after(image, *beat(image, 2, directory(2)).records)
    assert (part(image).leader, part(image).isr, part(image).leader_epoch) == (0, (0, 1), 5)


def test_a_shutdown_that_comes_with_a_failed_dir_is_granted_after_it() -> None:
    image = three()
    answer = beat(image, 0, directory(0), want_shut_down=True)
    assert not answer.reply.should_shut_down and not answer.reply.is_fenced
    image = after(image, *answer.records)
    image = after(image, *beat(image, 0, directory(0), want_shut_down=True).records)
    assert [part(image, index).leader for index in range(2)] == [1, 1]
    assert beat(image, 0, directory(0), want_shut_down=True).reply.should_shut_down


def test_nobody_on_a_failed_dir_is_elected_by_any_way() -> None:
    image = three(1)
    image = after(image, *beat(image, 0, directory(0)).records)
    for broker_id in (1, 2):
        gone = brokers.expire(image, broker_id, image.brokers[broker_id].broker_epoch, CONFIG)
        image = after(image, *gone.records)
    assert part(image).leader == -1
    unclean = after(image, r.ConfigRecord(2, "t", "unclean.leader.election.enable", "true"))
    assert list(elections.unclean(unclean, CONFIG)) == []
    # a new start with a new disk in its place is no better: it says where the replica lies, and that is elsewhere
    again = register(image, 0, directory(0, 1), directory(0, 5), incarnation=9500)
    assert part(again).leader == -1
    back = register(again, 2, directory(2), directory(2, 1), incarnation=9500)
    assert part(back).leader == 2


def test_a_single_replica_on_a_new_disk_is_led_again_once_its_broker_says_where_it_lies() -> None:
    image = register(after(cluster(1), *replicated("t", 1, isr=(0,), replicas=(0,))), 0, directory(0))
    image = after(image, r.PartitionRecord(0, topic_id(1), (0,), (0,), 0, directories=(directory(0),)))
    image = register(image, 0, directory(0, 3), incarnation=9500)
    assert part(image).leader == -1
    image = after(image, *assign(image, 0, (directory(0, 3), topic_id(1), 0)).records)
    assert (part(image).leader, part(image).directories) == (0, (directory(0, 3),))


@pytest.mark.parametrize("kept", [True, False])
def test_a_broker_that_comes_back_without_a_dir_is_in_no_elr_though_it_was_stopped_cleanly(kept: bool) -> None:
    image = after(three(), r.PartitionChangeRecord(0, topic_id(1), isr=(2,), leader=2))
    request = BrokerRegistrationRequest(
        broker_id=2, cluster_id=CLUSTER_ID, incarnation_id=UUID(int=9999), listeners=[], features=[], rack=None,
        log_dirs=[directory(2, 1), directory(2 if kept else 7)], previous_broker_epoch=image.brokers[2].broker_epoch,
    )  # fmt: skip
    image = after(image, *brokers.register(image, request, CONFIG, is_connected=False).records)
    assert (part(image).isr, part(image).eligible_leader_replicas) == ((), (2,) if kept else ())


def test_assignments_are_noted_one_by_one_with_kafkas_errors() -> None:
    image = three()
    moved = directory(1, 1)
    answer = assign(
        image, 1, (moved, topic_id(1), 0), (moved, topic_id(1), 9), (moved, UUID(int=77), 0),
        (directory(1), topic_id(1), 1),
    )  # fmt: skip
    rows = [d.topics[0].partitions[0].error_code for d in answer.reply.directories]
    assert rows == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, 0]
    assert len(answer.records) == 1  # the last one is known
    image = after(image, *answer.records)
    assert part(image).directories == (directory(0), moved, directory(2))
    assert (part(image).leader, part(image).leader_epoch, part(image).partition_epoch) == (0, 5, 6)


def test_a_broker_without_the_replica_and_one_of_an_earlier_life_assign_nothing() -> None:
    image = after(three(), r.PartitionRecord(0, topic_id(1), (1, 2), (1, 2), 1, directories=(directory(1),) * 2))
    answer = assign(image, 0, (directory(0), topic_id(1), 0))
    assert answer.reply.directories[0].topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(ApiError) as refused:
        assign(image, 0, (directory(0), topic_id(1), 0), epoch=1)
    assert refused.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_a_replica_said_to_lie_on_a_dir_that_is_offline_loses_the_leadership() -> None:
    image = three()
    image = after(image, *beat(image, 0, directory(0, 1)).records)
    image = after(image, *assign(image, 0, (directory(0, 1), topic_id(1), 0)).records)
    assert (part(image).leader, part(image).isr) == (1, (1, 2))


def test_replicas_placed_before_anybody_kept_account_may_lead_and_are_accounted_for() -> None:
    image = three()
    image = after(image, r.PartitionRecord(0, topic_id(1), (0, 1, 2), (0, 1, 2), 0))
    image = after(image, *assign(image, 1, (directory(1), topic_id(1), 0)).records)
    assert part(image).directories == (MIGRATING, directory(1), MIGRATING)
    assert after(image, *beat(image, 0, directory(0)).records).leader("t", 0) == 0


def test_a_new_partition_lies_in_its_brokers_only_dir_or_nobody_knows_yet() -> None:
    image = register(three(), 0, directory(0), incarnation=9500)
    topic = CreateTopicsRequest.CreatableTopic
    made = CreateTopicsRequest(
        topics=[
            topic(
                name="new", num_partitions=-1, replication_factor=-1, configs=[],
                assignments=[topic.CreatableReplicaAssignment(partition_index=0, broker_ids=[0, 1])],
            )
        ],
        timeout_ms=1, validate_only=False,
    )  # fmt: skip
    image = after(image, *create_topics.create(image, made, CONFIG, lambda: UUID(int=500)).records)
    assert part(image, 0, "new").directories == (directory(0), UNASSIGNED)
    more = CreatePartitionsRequest.CreatePartitionsTopic
    request = CreatePartitionsRequest(
        topics=[more(name="new", count=2, assignments=[more.CreatePartitionsAssignment(broker_ids=[1, 0])])],
        timeout_ms=1, validate_only=False,
    )  # fmt: skip
    image = after(image, *create_partitions.create(image, request).records)
    assert part(image, 1, "new").directories == (UNASSIGNED, directory(0))


def test_replicas_that_move_take_their_directories_along() -> None:
    image = three(1)
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    request = AlterPartitionReassignmentsRequest(
        topics=[topic(name="t", partitions=[topic.ReassignablePartition(partition_index=0, replicas=[2, 0])])],
        timeout_ms=1, allow_replication_factor_change=True,
    )  # fmt: skip
    image = after(image, *reassignments.alter(image, request, 1, CONFIG).records)
    found = dict(zip(part(image).replicas, part(image).directories, strict=True))
    assert found == {replica: directory(replica) for replica in part(image).replicas}
    assert LOST not in found.values()
