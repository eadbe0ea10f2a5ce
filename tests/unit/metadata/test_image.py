"""The metadata image: each record's effect, and that replaying a batch equals applying its records one by one."""

from dataclasses import replace
from functools import reduce
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.access import random_acls
from support.metadata import after, broker, cluster, service, topic, topic_id
from tailrace.metadata import codec
from tailrace.metadata import records as r
from tailrace.metadata.image import MetadataImage, changed
from tailrace.metadata.replay import planned, replay
from tailrace.metadata.snapshot import to_records

IMAGE = after(cluster(2), *topic("events", 1, [0, 1, 0]))


@st.composite
def histories(draw: st.DrawFn) -> list[r.MetadataRecord]:
    """Records in an order that a controller could have written: what is changed exists."""
    image = MetadataImage()
    history: list[r.MetadataRecord] = []
    for step in range(draw(st.integers(1, 25))):
        record = draw(st.sampled_from(_possible(image, step)))
        history.append(record)
        image = planned(image, [record])
    return history


def _possible(image: MetadataImage, step: int) -> list[r.MetadataRecord]:
    possible: list[r.MetadataRecord] = [
        r.RegisterBrokerRecord(step % 3, UUID(int=step), step),
        r.ConfigRecord(2, f"t{step % 4}", "retention.ms", str(step)),
        r.ConfigRecord(2, f"t{step % 4}", "retention.ms", None),
        r.ClientQuotaRecord((r.QuotaEntity("client-id", None),), "producer_byte_rate", float(step)),
        r.ClientQuotaRecord((r.QuotaEntity("client-id", "a"),), "producer_byte_rate", 1.0),
        r.ProducerIdsRecord(0, 0, step * 1000),
        r.FeatureLevelRecord("group.version", step % 2),
        r.ServiceRecord("coordinator", step % 2, step, UUID(int=step), ()),
        r.ClusterRecord(f"cluster-{step}"),
        r.NoOpRecord(),
        r.UserScramCredentialRecord(f"u{step % 2}", 1 + step % 2, b"salt", b"stored", b"server", 4096 + step),
        r.AccessControlEntryRecord.of(UUID(int=step), random_acls.acl(Random(step))),
    ]
    for user, credentials in image.scram.items():
        possible += [r.RemoveUserScramCredentialRecord(user, mechanism) for mechanism in credentials]
    possible += [r.RemoveAccessControlEntryRecord(acl_id) for acl_id in image.acl_ids]
    if (name := f"t{step % 4}") not in image.topics:
        possible.append(r.TopicRecord(name, topic_id(step)))
    for known in image.topics.values():
        count = len(known.partitions)
        possible.append(r.PartitionRecord(count, known.topic_id, (0,), (0,), 0))
        possible.append(r.RemoveTopicRecord(known.topic_id))
        if count:
            possible.append(r.PartitionChangeRecord(count - 1, known.topic_id, leader=step % 3, isr=(step % 3,)))
            possible.append(r.ShardOwnerRecord(known.name, count - 1, step % 2, step))
    for present in image.brokers.values():
        possible.append(r.UnregisterBrokerRecord(present.broker_id, present.broker_epoch))
        possible.append(r.BrokerRegistrationChangeRecord(present.broker_id, present.broker_epoch, fenced=-1))
    for role, number in image.services:
        possible.append(r.RemoveServiceRecord(role, number, 0))
    if ("client-id", "a") in [part for key in image.quotas for part in key]:
        entity = (r.QuotaEntity("client-id", "a"),)
        possible.append(r.ClientQuotaRecord(entity, "producer_byte_rate", 0.0, remove=True))
    return possible


@given(histories())
def test_replaying_a_batch_equals_applying_its_records_one_by_one(history: list[r.MetadataRecord]) -> None:
    at_once = replay(MetadataImage(), history, offset=-1, epoch=-1)
    one_by_one = reduce(lambda image, record: planned(image, [record]), history, MetadataImage())
    assert at_once == one_by_one


@given(histories())
def test_a_snapshot_rebuilds_the_image(history: list[r.MetadataRecord]) -> None:
    image = replay(MetadataImage(), history, offset=500, epoch=4)
    decoded = [codec.decode(codec.encode(record)) for record in to_records(image)]
    assert replay(MetadataImage(), decoded, offset=500, epoch=4) == image


@given(histories(), histories())
def test_an_image_never_changes(first: list[r.MetadataRecord], second: list[r.MetadataRecord]) -> None:
    image = replay(MetadataImage(), first, 1, 1)
    kept = {name: dict(getattr(image, name)) for name in ("topics", "brokers", "configs", "quotas", "scram", "shards")}
    known = {topic.topic_id for topic in image.topics.values()}
    replay(image, [record for record in second if not isinstance(record, r.TopicRecord) and _applies(record)], 2, 1)
    assert known == {topic.topic_id for topic in image.topics.values()}
    assert all(dict(getattr(image, name)) == before for name, before in kept.items())


def _applies(record: r.MetadataRecord) -> bool:
    return isinstance(record, r.ConfigRecord | r.RegisterBrokerRecord | r.ServiceRecord | r.ProducerIdsRecord)


def test_a_named_leader_raises_both_epochs() -> None:
    image = planned(IMAGE, [r.PartitionChangeRecord(1, topic_id(1), leader=-1)])
    partition = image.partition("events", 1)
    assert partition is not None
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (-1, 1, 1)
    assert partition.isr == (1,)
    again = planned(image, [r.PartitionChangeRecord(1, topic_id(1), leader=1)]).partition("events", 1)
    assert again is not None
    assert (again.leader, again.leader_epoch) == (1, 2)


def test_a_changed_isr_alone_keeps_the_leader_epoch() -> None:
    partition = planned(IMAGE, [r.PartitionChangeRecord(0, topic_id(1), isr=(0, 1))]).partition("events", 0)
    assert partition is not None
    assert (partition.isr, partition.leader_epoch, partition.partition_epoch) == ((0, 1), 0, 1)


def test_a_removed_topic_takes_its_configs_and_shards_along() -> None:
    image = after(IMAGE, r.ConfigRecord(2, "events", "retention.ms", "5"), r.ShardOwnerRecord("events", 0, 1, 1))
    gone = planned(image, [r.RemoveTopicRecord(topic_id(1))])
    assert (gone.topics, gone.topic_names, gone.configs, gone.shards) == ({}, {}, {}, {})


def test_a_topic_deleted_and_created_in_one_batch_is_the_new_one() -> None:
    image = after(IMAGE, r.RemoveTopicRecord(topic_id(1)), *topic("events", 2, [1]))
    found = image.topic("events")
    assert found is not None
    assert (found.topic_id, len(found.partitions)) == (topic_id(2), 1)
    assert image.topic_by_id(topic_id(1)) is None


def test_a_new_incarnation_replaces_the_broker_and_is_fenced() -> None:
    image = after(IMAGE, *broker(0, 50, fenced=True))
    assert [found.broker_id for found in image.live_brokers()] == [1]
    assert image.brokers[0].broker_epoch == 50


def test_a_quota_is_found_whatever_the_order_of_its_entity() -> None:
    user, client = r.QuotaEntity("user", "u"), r.QuotaEntity("client-id", "c")
    image = after(IMAGE, r.ClientQuotaRecord((user, client), "producer_byte_rate", 5.0))
    image = after(image, r.ClientQuotaRecord((client, user), "producer_byte_rate", 7.0))
    assert image.quotas == {(("client-id", "c"), ("user", "u")): {"producer_byte_rate": 7.0}}


@pytest.mark.parametrize(
    ("name", "index", "leader"), [("events", 1, 1), ("events", 9, -1), ("events", -1, -1), ("no", 0, -1)]
)
def test_the_leader_of_what_does_not_exist_is_none(name: str, index: int, leader: int) -> None:
    assert IMAGE.leader(name, index) == leader


def test_lookups_find_services_by_role_and_endpoints_by_name() -> None:
    image = after(IMAGE, service("gateway", 1, 5), service("coordinator", 0, 6), service("gateway", 0, 7))
    assert [found.service_id for found in image.services_of("gateway")] == [0, 1]
    endpoint = image.brokers[0].endpoint("INTERNAL")
    assert endpoint is not None
    assert endpoint.port == 20_000
    assert image.brokers[0].endpoint("CLIENT") is None


def test_replay_moves_offset_and_epoch_and_shares_what_it_did_not_touch() -> None:
    image = replay(IMAGE, [r.ProducerIdsRecord(0, 10, 1000)], offset=200, epoch=9)
    assert (image.offset, image.epoch, image.next_producer_id) == (200, 9, 1000)
    assert image.topics is IMAGE.topics
    assert replace(image, offset=IMAGE.offset, epoch=IMAGE.epoch, next_producer_id=0) == IMAGE


def test_what_is_another_object_or_gone_or_new_has_changed() -> None:
    same, other = ["kept"], ["kept"]
    assert changed({"a": same, "b": same, "c": same}, {"a": same, "b": other, "d": same}) == ["b", "d", "c"]
    one = {"a": same}
    assert changed(one, one) == []
