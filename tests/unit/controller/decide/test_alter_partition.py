"""AlterPartition: every answer a leader can get, and the reassignment that its proposal completes."""

from dataclasses import replace
from typing import Any

import pytest

from support.metadata import after, broker, cluster, replicated, topic_id
from tailrace.config import Config
from tailrace.errors import ErrorCode
from tailrace.metadata import records as r
from tailrace.metadata.image import MetadataImage, PartitionImage
from tailrace.wire.messages import AlterPartitionRequest
from tailrace_controller.decide import alter_partition, brokers

CONFIG = Config.load("controller", overrides={"min.insync.replicas": "2"})
IMAGE = after(cluster(4), *replicated("t", 1))
Topic = AlterPartitionRequest.TopicData
Partition = Topic.PartitionData


def propose(
    isr: list[int],
    image: MetadataImage = IMAGE,
    *,
    version: int = 3,
    epochs: dict[int, int] | None = None,
    by: int = 0,
    by_epoch: int | None = None,
    topic: int = 1,
    **asked: Any,
) -> Any:
    values: dict[str, Any] = {
        "partition_index": 0,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "leader_recovery_state": 0,
    } | asked
    known = {member: 10 + member for member in isr} | (epochs or {})
    states = [Partition.BrokerState(broker_id=member, broker_epoch=known[member]) for member in isr]
    members: dict[str, Any] = {"new_isr_with_epochs": states} if version >= 3 else {"new_isr": isr}
    request = AlterPartitionRequest(
        broker_id=by,
        broker_epoch=10 + by if by_epoch is None else by_epoch,
        topics=[Topic(topic_id=topic_id(topic), partitions=[Partition(**values, **members)])],
    )
    return alter_partition.alter(image, request, version, CONFIG)


def row(effects: Any) -> Any:
    assert effects.reply.error_code == 0
    ((found,),) = [topic.partitions for topic in effects.reply.topics]
    return found


def partition(image: MetadataImage, effects: Any) -> PartitionImage:
    found = after(image, *effects.records).partition("t", 0)
    assert found is not None
    return found


@pytest.mark.parametrize("version", [2, 3])
def test_a_leader_shrinks_and_expands_its_isr(version: int) -> None:
    shrunk = propose([0, 1], version=version)
    found = row(shrunk)
    answer = (found.error_code, found.leader_id, found.leader_epoch, found.partition_epoch, found.isr)
    assert answer == (0, 0, 0, 1, [0, 1])
    image = after(IMAGE, *shrunk.records)
    grown = propose([0, 1, 2], image, version=version, partition_epoch=1)
    assert (row(grown).isr, row(grown).partition_epoch) == ([0, 1, 2], 2)
    assert partition(image, grown).isr == (0, 1, 2)


def test_an_isr_as_it_is_is_answered_and_not_recorded() -> None:
    same = propose([0, 1, 2])
    assert (same.records, row(same).error_code, row(same).partition_epoch) == ((), 0, 0)


def test_who_is_shrunk_away_below_min_isr_stays_eligible() -> None:
    assert partition(IMAGE, propose([0])).eligible_leader_replicas == (1, 2)


@pytest.mark.parametrize(("by", "epoch"), [(0, 9), (9, 10)])
def test_strangers_and_earlier_lives_are_refused_as_a_whole(by: int, epoch: int) -> None:
    effects = propose([0, 1], by=by, by_epoch=epoch)
    assert (effects.reply.error_code, list(effects.reply.topics)) == (ErrorCode.STALE_BROKER_EPOCH, [])
    assert effects.records == ()


RECOVERING = after(
    cluster(4),
    r.TopicRecord("t", topic_id(1)),
    r.PartitionRecord(0, topic_id(1), (0, 1, 2), (0,), 0, leader_recovery_state=1),
)
LEADER_1 = after(cluster(4), *replicated("t", 1, leader=1))
FENCED_2 = after(IMAGE, r.BrokerRegistrationChangeRecord(2, 12, fenced=1))
LEAVING_2 = after(IMAGE, r.BrokerRegistrationChangeRecord(2, 12, in_controlled_shutdown=1))
LATER = after(
    IMAGE, r.PartitionChangeRecord(0, topic_id(1), leader=0), r.PartitionChangeRecord(0, topic_id(1), isr=(0,))
)


@pytest.mark.parametrize(
    ("effects", "code"),
    [
        (lambda: propose([0], topic=7), "UNKNOWN_TOPIC_ID"),
        (lambda: propose([0], partition_index=1), "UNKNOWN_TOPIC_OR_PARTITION"),
        (lambda: propose([0], leader_epoch=1), "NOT_CONTROLLER"),
        (lambda: propose([0], partition_epoch=1), "NOT_CONTROLLER"),
        (lambda: propose([0], LATER, leader_epoch=0, partition_epoch=2), "FENCED_LEADER_EPOCH"),
        (lambda: propose([0], LATER, leader_epoch=1, partition_epoch=1), "INVALID_UPDATE_VERSION"),
        (lambda: propose([0, 1], LEADER_1), "INVALID_REQUEST"),
        (lambda: propose([1, 2]), "INVALID_REQUEST"),
        (lambda: propose([]), "INVALID_REQUEST"),
        (lambda: propose([0, 3]), "INVALID_REQUEST"),
        (lambda: propose([0, 1, 1]), "INVALID_REQUEST"),
        (lambda: propose([0, 1], leader_recovery_state=1), "INVALID_REQUEST"),
        (lambda: propose([0], leader_recovery_state=1), "INVALID_REQUEST"),
        (lambda: propose([0, 1], RECOVERING, leader_recovery_state=1), "INVALID_REQUEST"),
        (lambda: propose([0, 1, 2], FENCED_2), "INELIGIBLE_REPLICA"),
        (lambda: propose([0, 1, 2], LEAVING_2), "INELIGIBLE_REPLICA"),
        (lambda: propose([0, 1, 2], epochs={2: 11}), "INELIGIBLE_REPLICA"),
    ],
)
def test_alter_partition_refuses_as_kafka_does(effects: Any, code: str) -> None:
    found = effects()
    assert (ErrorCode(row(found).error_code).name, found.records) == (code, ())


def test_an_epoch_of_minus_one_is_not_checked() -> None:
    assert row(propose([0, 1], epochs={1: -1})).error_code == 0


def test_a_leader_that_has_recovered_may_let_others_in() -> None:
    effects = propose([0, 1], RECOVERING, leader_recovery_state=0)
    assert (row(effects).leader_recovery_state, partition(RECOVERING, effects).isr) == (0, (0, 1))


def test_the_proposal_that_completes_a_reassignment_may_cost_the_leader_its_place() -> None:
    moving = after(
        cluster(4),
        r.TopicRecord("t", topic_id(1)),
        r.PartitionRecord(0, topic_id(1), (3, 1, 2, 0), (0, 1, 2), 0, adding_replicas=(3,), removing_replicas=(0,)),
    )
    effects = propose([0, 1, 2, 3], moving)
    found = partition(moving, effects)
    assert ErrorCode(row(effects).error_code).name == "NEW_LEADER_ELECTED"
    assert (found.leader, found.replicas, found.isr, found.adding_replicas) == (3, (3, 1, 2), (1, 2, 3), ())


def test_a_broker_that_restarted_meanwhile_does_not_get_in_by_its_former_life() -> None:
    gone = brokers.expire(IMAGE, 2, 12, CONFIG)
    image = after(after(IMAGE, *gone.records), *broker(2, 300))
    epoch = image.partition("t", 0).partition_epoch  # type: ignore[union-attr]
    stale = propose([0, 1, 2], image, partition_epoch=epoch)
    assert ErrorCode(row(stale).error_code).name == "INELIGIBLE_REPLICA"
    assert row(propose([0, 1, 2], image, partition_epoch=epoch, epochs={2: 300})).error_code == 0


def test_many_partitions_are_taken_or_refused_each_for_itself() -> None:
    image = after(IMAGE, r.PartitionRecord(1, topic_id(1), (1, 0), (1, 0), 1))
    rows = [Partition(partition_index=index, leader_epoch=0, partition_epoch=0, new_isr=[0]) for index in (0, 1)]
    request = AlterPartitionRequest(broker_id=0, broker_epoch=10, topics=[Topic(topic_id=topic_id(1), partitions=rows)])
    effects = alter_partition.alter(replace(image), request, 2, CONFIG)
    codes = [found.error_code for found in effects.reply.topics[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert len(effects.records) == 1
