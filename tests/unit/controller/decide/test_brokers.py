"""Brokers' lives: registration, epochs, fencing, leaders that come back, controlled shutdown, producer id blocks."""

from typing import Any
from uuid import UUID

import pytest

from support.metadata import CLUSTER_ID, after, broker, cluster, topic, topic_id
from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata import records as r
from tailrace.metadata.image import MetadataImage
from tailrace.wire.messages import AllocateProducerIdsRequest, BrokerHeartbeatRequest, BrokerRegistrationRequest
from tailrace_controller.decide import brokers, producer_ids

CONFIG = Config.load("controller")
IMAGE = after(cluster(2), *topic("events", 1, [0, 1, 0]))


def registration(broker_id: int = 0, incarnation: int = 5000, cluster_id: str = CLUSTER_ID, port: int = 0) -> Any:
    listener = BrokerRegistrationRequest.Listener
    listeners = [listener(name="INTERNAL", host="h", port=port or 20_000 + broker_id, security_protocol=0)]
    return BrokerRegistrationRequest(
        broker_id=broker_id, cluster_id=cluster_id, incarnation_id=UUID(int=incarnation), listeners=listeners,
        features=[], rack="r1", log_dirs=[UUID(int=1)], previous_broker_epoch=-1,
    )  # fmt: skip


def register(image: MetadataImage = IMAGE, *, is_connected: bool = False, **request: Any) -> Any:
    return brokers.register(image, registration(**request), CONFIG, is_connected=is_connected)


def beat(image: MetadataImage = IMAGE, broker_id: int = 0, epoch: int = 10, offset: int = 500, **wants: bool) -> Any:
    request = BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=epoch,
        current_metadata_offset=offset,
        want_fence=wants.get("want_fence", False),
        want_shut_down=wants.get("want_shut_down", False),
    )
    return brokers.heartbeat(image, image, request, CONFIG)


def applied(image: MetadataImage, effects: Any) -> MetadataImage:
    return after(image, *effects.records)


def test_a_new_broker_gets_the_offset_of_its_record_as_epoch_and_is_fenced() -> None:
    effects = register(broker_id=7)
    assert effects.reply.broker_epoch == IMAGE.offset + 1
    found = applied(IMAGE, effects).brokers[7]
    assert (found.fenced, found.broker_epoch, found.rack) == (True, IMAGE.offset + 1, "r1")
    assert found.endpoints == (r.Endpoint("INTERNAL", "h", 20_007),)


def test_a_new_incarnation_loses_the_old_ones_leaderships_until_it_is_unfenced() -> None:
    effects = register()
    image = applied(IMAGE, effects)
    assert [image.leader("events", index) for index in range(3)] == [-1, 1, -1]
    back = applied(image, beat(image, epoch=effects.reply.broker_epoch))
    assert [back.leader("events", index) for index in range(3)] == [0, 1, 0]
    partition = back.partition("events", 0)
    assert partition is not None
    assert (partition.leader_epoch, partition.isr) == (2, (0,))
    assert not back.brokers[0].fenced


def test_the_same_incarnation_keeps_its_epoch_and_changes_nothing() -> None:
    effects = register()
    image = applied(IMAGE, effects)
    again = register(image, is_connected=True)
    assert (again.reply.broker_epoch, again.records) == (effects.reply.broker_epoch, ())


def test_the_same_incarnation_may_move_its_listener_without_being_fenced() -> None:
    effects = register()
    image = applied(applied(IMAGE, effects), beat(applied(IMAGE, effects), epoch=effects.reply.broker_epoch))
    moved = register(image, port=4711)
    found = applied(image, moved).brokers[0]
    assert (found.fenced, found.broker_epoch, found.endpoints[0].port) == (False, effects.reply.broker_epoch, 4711)


@pytest.mark.parametrize(
    ("request_", "is_connected", "code"),
    [
        ({"cluster_id": "other"}, False, "INCONSISTENT_CLUSTER_ID"),
        ({"incarnation": 6000}, True, "DUPLICATE_BROKER_REGISTRATION"),
    ],
)
def test_registration_refuses_other_clusters_and_second_incarnations(
    request_: dict[str, Any], is_connected: bool, code: str
) -> None:
    with pytest.raises(ApiError) as refused:
        register(is_connected=is_connected, **request_)
    assert refused.value.code.name == code


def test_a_broker_in_controlled_shutdown_may_be_replaced_while_it_still_speaks() -> None:
    image = applied(IMAGE, beat(want_shut_down=True))
    assert register(image, is_connected=True).reply.error_code == 0


def test_a_broker_is_unfenced_only_when_it_has_read_its_own_registration() -> None:
    image = after(IMAGE, *broker(5, 300, fenced=True))
    early, late = beat(image, 5, 300, offset=299), beat(image, 5, 300, offset=300)
    assert (early.records, early.reply.is_caught_up, early.reply.is_fenced) == ((), False, True)
    assert late.records == (r.BrokerRegistrationChangeRecord(5, 300, fenced=-1),)
    assert (late.reply.is_caught_up, late.reply.is_fenced) == (True, False)


def test_a_heartbeat_of_a_live_broker_changes_nothing() -> None:
    effects = beat()
    assert (effects.records, effects.reply.is_fenced, effects.reply.should_shut_down) == ((), False, False)


def test_a_broker_may_ask_to_be_fenced() -> None:
    effects = beat(want_fence=True)
    image = applied(IMAGE, effects)
    assert image.brokers[0].fenced
    assert image.leader("events", 0) == -1
    assert effects.reply.is_fenced


def test_controlled_shutdown_moves_leaders_away_first_and_only_once() -> None:
    effects = beat(want_shut_down=True)
    image = applied(IMAGE, effects)
    assert effects.reply.should_shut_down
    assert image.brokers[0].in_controlled_shutdown
    assert [image.leader("events", index) for index in range(3)] == [-1, 1, -1]
    assert beat(image, want_shut_down=True).records == ()


def test_the_leader_of_several_replicas_is_replaced_from_the_isr() -> None:
    image = after(
        cluster(3),
        r.TopicRecord("wide", topic_id(9)),
        r.PartitionRecord(0, topic_id(9), (0, 1, 2), (0, 2), 0),
    )
    partition = applied(image, brokers.expire(image, 0, 10, CONFIG)).partition("wide", 0)
    assert partition is not None
    assert (partition.leader, partition.isr, partition.leader_epoch) == (2, (2,), 1)


@pytest.mark.parametrize(
    ("broker_id", "epoch", "code"), [(9, 10, "BROKER_ID_NOT_REGISTERED"), (0, 9, "STALE_BROKER_EPOCH")]
)
def test_heartbeats_of_strangers_and_of_earlier_lives_are_refused(broker_id: int, epoch: int, code: str) -> None:
    with pytest.raises(ApiError) as refused:
        beat(broker_id=broker_id, epoch=epoch)
    assert refused.value.code.name == code


def test_expiry_fences_the_epoch_that_was_silent_and_no_later_one() -> None:
    assert brokers.expire(IMAGE, 0, 10, CONFIG).reply
    assert not brokers.expire(IMAGE, 0, 9, CONFIG).reply
    fenced = applied(IMAGE, brokers.expire(IMAGE, 0, 10, CONFIG))
    assert brokers.expire(fenced, 0, 10, CONFIG).records == ()


def test_an_unregistered_broker_is_forgotten_and_leads_nothing() -> None:
    image = applied(IMAGE, brokers.unregister(IMAGE, 0, CONFIG))
    assert list(image.brokers) == [1]
    assert image.leader("events", 0) == -1
    with pytest.raises(ApiError) as refused:
        brokers.unregister(image, 0, CONFIG)
    assert refused.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_producer_ids_come_in_blocks_that_are_never_given_twice() -> None:
    request = AllocateProducerIdsRequest(broker_id=0, broker_epoch=10)
    first = producer_ids.allocate(IMAGE, request)
    second = producer_ids.allocate(applied(IMAGE, first), request)
    starts = [(e.reply.producer_id_start, e.reply.producer_id_len) for e in (first, second)]
    assert starts == [(0, 1000), (1000, 1000)]


def test_producer_ids_are_for_registered_brokers() -> None:
    with pytest.raises(ApiError) as refused:
        producer_ids.allocate(IMAGE, AllocateProducerIdsRequest(broker_id=0, broker_epoch=3))
    assert refused.value.code == ErrorCode.STALE_BROKER_EPOCH
