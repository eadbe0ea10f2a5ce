"""The shell around the groups: who owns a shard, what loading and doubt mean for those who ask."""

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from support.coordinator import OFFSETS_ID, TOPIC_ID, Stage, image, settle
from tailrace.coordination.group_records import OffsetCommitted, encode
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.metadata.image import MetadataImage, ShardImage
from tailrace.net.client import Disconnected
from tailrace.wire.messages import (
    HeartbeatRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from tailrace_coordinator.shards.kind import MOST_ID_BYTES

_TOPIC = OffsetCommitRequest.OffsetCommitRequestTopic


def commit(offset: int, group_id: str = "g", partition: int = 0) -> OffsetCommitRequest:
    row = _TOPIC.OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
    return OffsetCommitRequest(group_id=group_id, topics=[_TOPIC(name="t", partitions=[row])])


def fetch(group_id: str = "g") -> OffsetFetchRequest:
    return OffsetFetchRequest(group_id=group_id, topics=None)


async def committed(stage: Stage) -> list[int]:
    answer = await stage.ask(fetch(), 7)
    return [partition.committed_offset for topic in answer.topics for partition in topic.partitions]


async def ok(stage: Stage, offset: int) -> None:
    answer = await stage.ask(commit(offset), 9)
    assert answer.topics[0].partitions[0].error_code == 0


async def test_nobody_answers_for_a_shard_it_does_not_own() -> None:
    stage = Stage()
    assert await stage.ask(fetch(), 7) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # there is no image yet
    await stage.become(MetadataImage())
    answer = await stage.ask(commit(1), 9)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await stage.ask(fetch(), 7) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await stage.become(image(owner=1))
    assert await stage.ask(fetch(), 7) is ErrorCode.NOT_COORDINATOR
    await stage.become(image(leader=-1))
    assert await stage.ask(fetch(), 7) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await stage.coordinator.close()


async def test_a_topic_that_the_image_does_not_have_yet_is_no_unknown_one() -> None:
    stage = Stage()
    await stage.become(image(topic="older"))
    stage.committed = image()  # what the controller knows, and this image, from before a restart, does not
    await ok(stage, 5)
    assert await committed(stage) == [5]
    await stage.coordinator.close()


@pytest.mark.parametrize(
    ("caught_up", "code"),
    [(True, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (False, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)],
)
async def test_a_topic_is_unknown_only_if_the_image_is_the_newest(caught_up: bool, code: ErrorCode) -> None:
    stage = Stage()
    stage.caught_up = caught_up
    await stage.become(image(topic="another"))
    committed = await stage.ask(commit(1), 9)
    assert committed.topics[0].partitions[0].error_code == code
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
    row = topic.OffsetDeleteRequestPartition(partition_index=0)
    deleted = await stage.ask(OffsetDeleteRequest(group_id="g", topics=[topic(name="t", partitions=[row])]), 0)
    if deleted is not ErrorCode.GROUP_ID_NOT_FOUND:
        assert deleted.topics[0].partitions[0].error_code == code
    await stage.coordinator.close()


async def test_offsets_of_a_topic_id_that_the_image_does_not_have_yet_are_not_refused() -> None:
    stage = Stage()
    await stage.become(image())
    await ok(stage, 5)
    asked = OffsetFetchRequest.OffsetFetchRequestGroup
    topic = asked.OffsetFetchRequestTopics(topic_id=UUID(int=99), partition_indexes=[0])
    request = OffsetFetchRequest(groups=[asked(group_id="g", topics=[topic])])
    stage.caught_up = False
    assert (await stage.ask(request, 10)).groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    stage.caught_up = True
    (row,) = (await stage.ask(request, 10)).groups[0].topics
    assert row.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    await stage.coordinator.close()


async def test_who_asks_for_a_shard_that_is_loaded_waits_for_it() -> None:
    stage = Stage(load_wait_ms=60_000)
    stage.log.gate.clear()
    await stage.become(image())
    asked = asyncio.ensure_future(stage.ask(fetch(), 7))
    listed = asyncio.ensure_future(stage.ask(ListGroupsRequest(), 4))
    await settle()
    assert not asked.done()
    stage.log.gate.set()
    assert (await asked).error_code == ErrorCode.NONE
    assert (await listed).error_code == ErrorCode.NONE
    await stage.coordinator.close()


async def test_an_owner_fences_reads_and_serves() -> None:
    stage = Stage()
    stage.log.entries.append((False, encode(OffsetCommitted("g", "t", 0, 42, commit_timestamp_ms=1))))
    await stage.become(image(shard_epoch=3))
    assert await committed(stage) == [42]
    assert stage.log.epochs == [3]
    await stage.coordinator.close()


async def test_another_life_of_the_same_id_owns_nothing() -> None:
    stage = Stage()
    stage.coordinator.incarnation_id = UUID(int=77)
    await stage.become(image())
    assert await stage.ask(fetch(), 7) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.log.epochs == []


async def test_while_a_shard_loads_heartbeats_are_welcome_and_the_rest_must_wait() -> None:
    stage = Stage()
    stage.log.gate.clear()
    await stage.become(image())
    assert await stage.ask(fetch(), 7) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert await stage.ask(ListGroupsRequest(), 4) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert (await stage.ask(beat, 4)).error_code == 0
    stage.log.gate.set()
    await settle()
    assert await stage.ask(beat, 4) is ErrorCode.UNKNOWN_MEMBER_ID
    await stage.coordinator.close()


async def test_with_a_new_leader_or_epoch_a_shard_fences_again() -> None:
    stage = Stage()
    await stage.become(image())
    await ok(stage, 5)
    await stage.become(image())
    assert stage.log.epochs == [1]  # nothing changed
    await stage.become(image(leader_epoch=1))
    await stage.become(image(leader_epoch=1, shard_epoch=2))
    assert stage.log.epochs == [1, 1, 2]
    assert await committed(stage) == [5]
    await stage.become(image(owner=1, shard_epoch=3))
    assert await stage.ask(fetch(), 7) is ErrorCode.NOT_COORDINATOR
    await stage.coordinator.close()


async def test_commits_that_arrive_during_an_append_go_out_together() -> None:
    stage = Stage()
    await stage.become(image())
    stage.log.gate.clear()
    asking = [asyncio.ensure_future(ok(stage, 1))]
    await stage.log.appending.wait()
    asking += [asyncio.ensure_future(ok(stage, offset)) for offset in (2, 3, 4)]
    await settle()
    assert not any(each.done() for each in asking)
    stage.log.gate.set()
    await asyncio.gather(*asking)
    assert stage.log.appends == [1, 3]
    await stage.coordinator.close()


@pytest.mark.parametrize(
    ("failure", "meanwhile"),
    [
        (ApiError(ErrorCode.NOT_COORDINATOR), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (TimeoutError(), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_on_doubt_the_shard_is_dropped_and_read_again(failure: Exception, meanwhile: ErrorCode) -> None:
    stage = Stage()
    await stage.become(image())
    await ok(stage, 1)
    stage.log.failures = [failure]
    assert await stage.ask(commit(2), 9) is ErrorCode.NOT_COORDINATOR
    assert await stage.ask(fetch(), 7) is meanwhile
    stage.clock.advance(2_000)
    await settle()
    assert await committed(stage) == [1]
    await ok(stage, 3)
    await stage.coordinator.close()


@pytest.mark.parametrize("failure", [ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER), Disconnected("gone")])
@pytest.mark.parametrize("is_written", [False, True], ids=["lost", "written"])
async def test_a_shard_whose_leader_is_lost_goes_on_with_the_next(failure: Exception, is_written: bool) -> None:
    """Its append is in the log once, whether the leader before had it or not; nothing is read again."""
    stage = Stage()
    await stage.become(image())
    await ok(stage, 1)
    read, stage.log.read_from = stage.log.read_from, []
    stage.log.failures = [failure]
    stage.log.writes_before_it_fails = is_written
    asking = [asyncio.ensure_future(ok(stage, 2)), asyncio.ensure_future(ok(stage, 3))]
    await settle()
    assert not any(each.done() for each in asking)
    assert len(stage.log.entries) == (3 if is_written else 2)
    await stage.become(image(leader_epoch=1))
    await asyncio.gather(*asking)
    assert await committed(stage) == [3]
    assert (stage.log.epochs, read, stage.log.read_from) == ([1, 1], [0], [2])
    assert [is_barrier for is_barrier, _ in stage.log.entries].count(False) == 3
    await stage.become(image(leader_epoch=1, shard_epoch=2))
    assert await committed(stage) == [3]
    await stage.coordinator.close()


async def test_a_silent_leader_holds_up_no_shard_that_another_leads() -> None:
    stage = Stage()
    await stage.become(image())
    stage.log.gate.clear()
    asking = asyncio.ensure_future(ok(stage, 1))
    await stage.log.appending.wait()
    stage.log.gate = asyncio.Event()
    stage.log.gate.set()
    await stage.become(image(leader_epoch=1))
    await asking
    assert await committed(stage) == [1]
    await stage.coordinator.close()


async def test_a_log_that_is_not_as_the_shard_left_it_is_read_again() -> None:
    stage = Stage()
    await stage.become(image())
    await ok(stage, 1)
    stage.log.entries[1:] = []  # by an unclean election
    await stage.become(image(leader_epoch=1))
    stage.clock.advance(2_000)
    await settle()
    assert await committed(stage) == []
    await ok(stage, 4)
    stage.log.entries.append((False, encode(OffsetCommitted("g", "t", 0, 9, commit_timestamp_ms=1))))
    await stage.become(image(leader_epoch=2))
    stage.clock.advance(2_000)
    await settle()
    assert await committed(stage) == [9]
    await stage.coordinator.close()


async def test_a_leader_that_stays_away_costs_the_shard() -> None:
    stage = Stage()
    await stage.become(image())
    stage.log.failures = [Disconnected("gone")] * 1_000
    asking = asyncio.ensure_future(stage.ask(commit(2), 9))
    for _ in range(300):
        stage.clock.advance(10)
        await settle()
    assert await asking is ErrorCode.NOT_COORDINATOR
    assert await stage.ask(fetch(), 7) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await stage.coordinator.close()


async def test_a_leader_that_is_away_is_asked_again_until_it_answers() -> None:
    stage = Stage()
    stage.log.failures = [Disconnected("gone")] * 3
    await stage.become(image())
    for _ in range(3):
        assert await stage.ask(fetch(), 7) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        stage.clock.advance(2_000)
        await settle()
    assert await committed(stage) == []
    await stage.coordinator.close()


async def test_a_bug_in_a_decision_costs_the_shard_and_not_the_service() -> None:
    stage = Stage()
    await stage.become(image())
    await ok(stage, 1)

    def bug(*_: object) -> object:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await stage.coordinator.groups.ask(fetch(), bug)  # type: ignore[arg-type]
    assert await stage.ask(fetch(), 7) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await settle()
    stage.clock.advance(2_000)
    await settle()
    assert await committed(stage) == [1]
    await stage.coordinator.close()


async def test_a_damaged_record_keeps_no_other_group_away() -> None:
    stage = Stage()
    key, _ = encode(OffsetCommitted("g", "t", 1, 1))
    stage.log.entries.append((False, (key, b"\0\x09garbage")))
    stage.log.entries.append((False, encode(OffsetCommitted("g", "t", 0, 42))))
    await stage.become(image())
    assert await committed(stage) == [42]
    await stage.coordinator.close()


async def test_an_asker_that_hangs_up_is_forgotten() -> None:
    stage = Stage()
    await stage.become(image())
    stage.log.gate.clear()
    asking = asyncio.ensure_future(stage.ask(commit(1), 9))
    await stage.log.appending.wait()
    asking.cancel()
    stage.log.gate.set()
    await settle()
    assert await committed(stage) == [1]
    await stage.coordinator.close()


async def test_offsets_of_a_deleted_topic_go_with_it_and_those_of_its_successor_stay() -> None:
    stage = Stage()
    await stage.become(image())
    await ok(stage, 1)
    without = replace(
        image(),
        topics={GROUP_METADATA_TOPIC: image().topics[GROUP_METADATA_TOPIC]},
        topic_names={OFFSETS_ID: GROUP_METADATA_TOPIC},
    )
    await stage.become(without)
    await stage.become(image())
    assert await committed(stage) == []
    await ok(stage, 2)
    renamed = replace(image().topics["t"], topic_id=UUID(int=99))
    await stage.become(
        replace(
            image(),
            topics={GROUP_METADATA_TOPIC: image().topics[GROUP_METADATA_TOPIC], "t": renamed},
            topic_names={OFFSETS_ID: GROUP_METADATA_TOPIC, UUID(int=99): "t"},
        )
    )
    assert TOPIC_ID not in stage.image.topic_names
    await ok(stage, 7)
    assert await committed(stage) == [7]
    await stage.coordinator.close()


async def test_an_offset_of_a_topic_that_was_created_anew_is_not_shown() -> None:
    stage = Stage()
    stage.log.entries.append((False, encode(OffsetCommitted("g", "t", 0, 42, topic_id=UUID(int=55)))))
    await stage.become(image())
    assert await committed(stage) == []
    await stage.coordinator.close()


async def test_metrics_speak_kafkas_words() -> None:
    stage = Stage()
    await stage.become(image())
    await ok(stage, 1)
    samples = {
        (sample.name, sample.labels.get("state")): sample.value
        for family in stage.metrics.collect()
        for sample in family.samples
        if sample.labels.get("type") != "consumer"
    }
    assert samples["tailrace_groups", "Empty"] == 1
    assert samples["tailrace_num_partitions", None] == 1
    assert samples["tailrace_offset_commit_count_total", None] == 1
    assert samples["tailrace_offsets", None] == 1
    await stage.coordinator.close()


async def test_a_shard_nobody_leads_is_left_until_somebody_does() -> None:
    stage = Stage()
    await stage.become(image(leader=-1))
    assert stage.log.epochs == []
    await stage.become(replace(image(), shards={(GROUP_METADATA_TOPIC, 0): ShardImage(GROUP_METADATA_TOPIC, 0, 0, 4)}))
    assert stage.log.epochs == [4]
    await stage.coordinator.close()


@pytest.mark.parametrize("character", ["g", "\u00e9"])
async def test_an_id_that_is_too_long_is_refused(character: str) -> None:
    longest = character * (MOST_ID_BYTES // len(character.encode()))
    stage = Stage()
    await stage.become(image())
    fits, too_long = [await stage.ask(commit(1, group_id), 9) for group_id in (longest, longest + "g")]
    assert fits.topics[0].partitions[0].error_code == 0
    assert too_long is ErrorCode.INVALID_GROUP_ID
    with pytest.raises(ApiError) as refused:
        stage.coordinator.transactions.partition_of(longest + "g")
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    await stage.coordinator.close()
