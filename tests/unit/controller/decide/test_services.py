"""Services' registrations, and the shards of sharded topics: sticky, balanced, with epochs that only grow."""

import json
from collections import Counter
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.metadata import after, cluster, service, topic
from tailrace.errors import ApiError
from tailrace.metadata import records as r
from tailrace.metadata.image import MetadataImage
from tailrace.wire.messages import RegisterServiceRequest, ServiceHeartbeatRequest
from tailrace_controller.decide import reports, services, shards

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
IMAGE = after(cluster(1), *topic(OFFSETS, 1, [0] * 10))


def register(image: MetadataImage, role: str, service_id: int, incarnation: int, *, connected: bool = False) -> Any:
    request = RegisterServiceRequest(
        role=role, service_id=service_id, incarnation_id=UUID(int=incarnation),
        endpoints=[RegisterServiceRequest.ServiceEndpoint(name="INTERNAL", host="h", port=70_000)],
    )  # fmt: skip
    return services.register(image, request, is_connected=connected)


def beat(image: MetadataImage, role: str, service_id: int, epoch: int, *, leave: bool = False) -> Any:
    request = ServiceHeartbeatRequest(
        role=role, service_id=service_id, service_epoch=epoch, metadata_offset=0, want_shut_down=leave
    )
    return services.heartbeat(image, request)


def owners(image: MetadataImage) -> list[int]:
    return [image.shards[OFFSETS, index].owner for index in range(10)]


def epochs(image: MetadataImage) -> list[int]:
    return [image.shards[OFFSETS, index].shard_epoch for index in range(10)]


def applied(image: MetadataImage, effects: Any) -> MetadataImage:
    return after(image, *effects.records)


def test_the_first_coordinator_owns_all_shards_and_the_second_takes_half() -> None:
    one = applied(IMAGE, register(IMAGE, "coordinator", 0, 1))
    two = applied(one, register(one, "coordinator", 1, 2))
    assert owners(one) == [0] * 10
    assert Counter(owners(two)) == {0: 5, 1: 5}
    assert sum(epoch == 2 for epoch in epochs(two)) == 5


def test_a_restarted_coordinator_keeps_its_shards_with_new_epochs() -> None:
    one = applied(IMAGE, register(IMAGE, "coordinator", 0, 1))
    again = applied(one, register(one, "coordinator", 0, 99))
    assert owners(again) == [0] * 10
    assert epochs(again) == [2] * 10


def test_the_same_incarnation_keeps_its_epoch() -> None:
    effects = register(IMAGE, "gateway", 0, 1)
    again = register(applied(IMAGE, effects), "gateway", 0, 1, connected=True)
    assert (again.reply, again.records) == (effects.reply, ())


def test_a_coordinator_that_leaves_hands_its_shards_to_the_others() -> None:
    one = applied(IMAGE, register(IMAGE, "coordinator", 0, 1))
    two = applied(one, register(one, "coordinator", 1, 2))
    epoch = two.services["coordinator", 1].service_epoch
    left = applied(two, beat(two, "coordinator", 1, epoch, leave=True))
    assert owners(left) == [0] * 10
    assert ("coordinator", 1) not in left.services


def test_each_sharded_topic_is_spread_over_the_coordinators_by_itself() -> None:
    image = after(IMAGE, *topic(TRANSACTIONS, 2, [0] * 4))
    one = applied(image, register(image, "coordinator", 0, 1))
    two = applied(one, register(one, "coordinator", 1, 2))
    assert Counter(owners(two)) == {0: 5, 1: 5}
    assert Counter(two.shards[TRANSACTIONS, index].owner for index in range(4)) == {0: 2, 1: 2}


def test_a_first_shard_epoch_is_above_the_coordinator_epochs_that_a_kafka_wrote_into_markers() -> None:
    leader_epochs = (0, 7)
    partitions = (r.PartitionRecord(n, UUID(int=2), (0,), (0,), 0, epoch) for n, epoch in enumerate(leader_epochs))
    image = after(IMAGE, r.TopicRecord(TRANSACTIONS, UUID(int=2)), *partitions)
    one = applied(image, register(image, "coordinator", 0, 1))
    assert [one.shards[TRANSACTIONS, n].shard_epoch for n in range(2)] == [1, 8]
    again = applied(one, register(one, "coordinator", 0, 99))
    assert [again.shards[TRANSACTIONS, n].shard_epoch for n in range(2)] == [2, 9]


def test_without_coordinators_nobody_owns_shards() -> None:
    one = applied(IMAGE, register(IMAGE, "coordinator", 0, 1))
    none = applied(one, services.expire(one, "coordinator", 0, one.services["coordinator", 0].service_epoch))
    assert (owners(none), epochs(none)) == ([-1] * 10, [2] * 10)


def test_expiry_spares_a_service_that_registered_anew() -> None:
    one = applied(IMAGE, register(IMAGE, "gateway", 0, 1))
    assert not services.expire(one, "gateway", 0, 3).reply
    assert services.expire(one, "gateway", 0, one.services["gateway", 0].service_epoch).reply


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (lambda: register(IMAGE, "broker", 0, 1), "INVALID_REQUEST"),
        (
            lambda: register(after(IMAGE, service("quota", 0, 5)), "quota", 0, 1, connected=True),
            "DUPLICATE_BROKER_REGISTRATION",
        ),
        (lambda: beat(IMAGE, "gateway", 0, 5), "BROKER_ID_NOT_REGISTERED"),
        (lambda: beat(after(IMAGE, service("gateway", 0, 5)), "gateway", 0, 4), "STALE_BROKER_EPOCH"),
    ],
)
def test_services_are_refused_like_brokers(act: Any, code: str) -> None:
    with pytest.raises(ApiError) as refused:
        act()
    assert refused.value.code.name == code


@given(st.lists(st.sets(st.integers(0, 5)), min_size=1, max_size=8), st.integers(1, 60))
def test_shards_stay_balanced_and_move_no_more_than_needed(memberships: list[set[int]], count: int) -> None:
    held = [-1] * count
    history = []
    for live in map(sorted, memberships):
        before, held = held, shards.balance(held, live)
        history.append(held)
        if not live:
            assert set(held) == {-1}
            continue
        load = Counter(held)
        assert max(load.values()) - min(load[member] for member in live) <= 1
        moved = sum(old != new and old in live for old, new in zip(before, held, strict=True))
        excess = sum(max(0, n - count // len(live)) for member, n in Counter(before).items() if member in live)
        assert moved <= excess
    for old, new in pairwise(history):
        if set(old) == set(new):
            assert old == new


def test_reports_become_rows_and_nonsense_is_left_out() -> None:
    groups = reports.parse("groups", b'[{"group_id": "g", "state": "Stable", "members": 2}, {"state": "nameless"}]', 77)
    assert groups == [{"group_id": "g", "state": "Stable", "type": "classic", "members": 2, "reported_ms": 77}]
    offset = b'[{"group_id": "g", "topic": "t", "partition": 0, "committed_offset": 5}]'
    (row,) = reports.parse("group_offsets", offset, 77)
    assert (row["committed_offset"], row["log_end_offset"], row["next_timestamp_ms"]) == (5, None, None)
    aged = offset.replace(b"}", b', "log_end_offset": 9, "next_timestamp_ms": 70, "lag_trend": -1.5}')
    (row,) = reports.parse("group_offsets", aged, 77)
    assert (row["log_end_offset"], row["next_timestamp_ms"], row["lag_trend"]) == (9, 70, -1.5)
    told = {"transactional_id": "t", "state": "Ongoing", "producer_id": 7, "producer_epoch": 1, "timeout_ms": 60000}
    open_and_empty = [{**told, "start_ms": 5, "partitions": 2}, {**told, "start_ms": -1, "partitions": 0}, told]
    begun, never = reports.parse("transactions", json.dumps(open_and_empty).encode(), 77)
    assert begun == {**told, "start_ms": 5, "partitions": 2, "reported_ms": 77}
    assert never["start_ms"] is None
    used = {"entity": "ip=::1", "name": "k", "value": 5, "usage": 1.5, "throttle_time_ms": 7, "throttled": 1}
    assert reports.parse("quota_usage", json.dumps([used, {}]).encode(), 77) == [
        {**used, "throttled": True, "reported_ms": 77}
    ]
    assert reports.parse("groups", b"no json", 0) == reports.parse("groups", b"7", 0) == []


def test_a_shard_record_is_written_once_per_change_of_hands() -> None:
    one = applied(IMAGE, register(IMAGE, "coordinator", 0, 1))
    assert list(shards.assign(one)) == []
    assert all(isinstance(record, r.ShardOwnerRecord) for record in shards.assign(one, restarted=0))
