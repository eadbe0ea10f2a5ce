"""A second kind of shard needs a row and a machine: here one that only tests know, on the host as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from support.coordinator import LOGGER, Stage, image, settle
from support.tallies import KEPT_MS, TALLIES, TOPIC, AddRequest, Tallies, Tally
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage, PartitionImage, ShardImage, TopicImage
from tailrace.net.members.reports import Reports
from tailrace.state import Effects
from tailrace.wire.messages import ReportGroupsResponse
from tailrace_coordinator.reports.reports import sources_of

TOPIC_ID = UUID(int=77)
BESIDE, BESIDE_ID = "__tallies_beside", UUID(int=78)


def with_tallies(shard_epoch: int = 1, owner: int = 0, leader: int = 0, **options: Any) -> MetadataImage:
    """The usual image, with a partition of tallies."""
    base = image(**options)
    topic = TopicImage(TOPIC, TOPIC_ID, (PartitionImage((0,), (0,), leader, 0, 0),))
    return replace(
        base,
        topics={**base.topics, TOPIC: topic},
        topic_names={**base.topic_names, TOPIC_ID: TOPIC},
        shards={**base.shards, (TOPIC, 0): ShardImage(TOPIC, 0, owner, shard_epoch)},
    )


async def staged(*records: tuple[bytes, bytes | None]) -> Stage:
    """A coordinator whose partition of tallies has these records, loaded."""
    stage = Stage(kinds={TOPIC: TALLIES})
    stage.logs[TOPIC].entries += [(False, record) for record in records]
    await stage.become(with_tallies())
    return stage


async def add(stage: Stage, name: str, amount: int) -> Any:
    """The sum, or the code of a refusal."""
    request = AddRequest(name, amount)
    try:
        return await stage.coordinator.runtimes[TOPIC].ask(
            request, lambda tallies, now_ms, token: tallies.add(now_ms, token, request)
        )
    except ApiError as refused:
        return refused.code


def written(stage: Stage) -> list[tuple[bytes, bytes | None]]:
    """What the log has, short of barriers."""
    return [record for is_barrier, record in stage.logs[TOPIC].entries if not is_barrier]


async def test_it_is_fenced_loaded_and_written() -> None:
    stage = await staged((b"a", b"5"), (b"b", b"not a number"), (b"?", b"passed over"), (b"c", b"1"), (b"c", None))
    assert await add(stage, "a", 2) == 7
    assert await add(stage, "b", 1) == 1
    assert written(stage)[-2:] == [(b"a", b"7"), (b"b", b"1")]
    assert stage.logs[TOPIC].epochs == [1]
    (tallies,) = stage.coordinator.runtimes[TOPIC].machines()
    assert tallies.totals == {"a": 7, "b": 1}
    assert tallies.topics_when_loaded == 3
    await stage.coordinator.close()


async def test_another_epoch_is_fenced_and_replayed() -> None:
    stage = await staged()
    await add(stage, "a", 2)
    await stage.become(with_tallies(shard_epoch=2))
    assert stage.logs[TOPIC].epochs == [1, 2]
    assert await add(stage, "a", 3) == 5
    await stage.become(with_tallies(shard_epoch=3, owner=1))
    assert await add(stage, "a", 1) is ErrorCode.NOT_COORDINATOR
    assert list(stage.coordinator.runtimes[TOPIC].machines()) == []
    await stage.become(with_tallies(shard_epoch=4, leader=-1))
    assert await add(stage, "a", 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await stage.coordinator.close()


@pytest.mark.parametrize("failure", [ApiError(ErrorCode.NOT_COORDINATOR), TimeoutError()])
async def test_on_doubt_it_is_dropped_and_replayed(failure: Exception) -> None:
    stage = await staged((b"a", b"1"))
    stage.logs[TOPIC].failures = [failure]
    assert await add(stage, "a", 1) is ErrorCode.NOT_COORDINATOR
    stage.clock.advance(2_000)
    await settle()
    assert await add(stage, "a", 1) == 2
    await stage.coordinator.close()


async def test_an_answer_waits_until_it_is_committed() -> None:
    stage = await staged()
    stage.logs[TOPIC].gate.clear()
    asking = asyncio.ensure_future(add(stage, "a", 1))
    await stage.logs[TOPIC].appending.wait()
    assert not asking.done()
    stage.logs[TOPIC].gate.set()
    assert await asking == 1
    await stage.coordinator.close()


async def test_a_deadline_writes_and_begins_anew_with_each_load() -> None:
    stage = await staged((b"old", b"1"))
    stage.clock.advance(KEPT_MS / 2)
    await stage.become(with_tallies(shard_epoch=2))
    await add(stage, "new", 1)
    stage.clock.advance(KEPT_MS - 1)
    await settle()
    assert (b"old", None) not in written(stage)
    stage.clock.advance(1)
    await settle()
    assert written(stage)[-2:] == [(b"old", None), (b"new", None)]
    await stage.become(with_tallies(shard_epoch=3, owner=1))
    assert len(stage.deadlines) == 1  # that of the groups' shard
    await stage.coordinator.close()


async def test_it_is_told_of_the_cluster() -> None:
    stage = await staged((b"t", b"1"), (b"u", b"1"))
    whole = with_tallies()
    topics = {name: topic for name, topic in whole.topics.items() if name != "t"}
    names = {topic_id: name for topic_id, name in whole.topic_names.items() if name != "t"}
    await stage.become(replace(whole, topics=topics, topic_names=names))
    assert written(stage)[-1] == (b"t", None)
    (tallies,) = stage.coordinator.runtimes[TOPIC].machines()
    assert tallies.totals == {"u": 1}
    await stage.coordinator.close()


async def test_metrics_count_every_kind() -> None:
    stage = await staged((b"a", b"1"), (b"b", b"1"))
    samples = {sample.name: sample.value for family in stage.metrics.collect() for sample in family.samples}
    assert samples["tailrace_tally_count"] == 2
    assert samples["tailrace_num_partitions"] == 2  # one of groups
    assert samples["tailrace_num_partitions_loading"] == 0
    await stage.coordinator.close()


async def test_the_controller_is_told_of_it_by_its_own_kind_of_rows() -> None:
    stage, told = await staged((b"a", b"1")), []

    async def controller(request: Any) -> Any:
        told.append((request.kind, bytes(request.payload)))
        return ReportGroupsResponse(error_code=0)

    sources = [source for runtime in stage.coordinator.runtimes.values() for source in sources_of(runtime)]
    await Reports(stage.clock, sources, controller, lambda: (0, 7), LOGGER).report()
    assert told == [("groups", b"[]"), ("transactions", b"[]"), ("tallies", b'[{"name": "a", "total": 1}]')]
    await stage.coordinator.close()


class Faulty(Tallies):
    """Has a bug wherever the name "bug" comes."""

    def apply(self, record: Tally) -> None:
        if record.name == "bug" and record.total == 13:
            raise ZeroDivisionError
        super().apply(record)

    def on_image(self, now_ms: int, delta: MetadataDelta) -> Effects[Tally]:
        if "bug" in self.totals:
            raise ZeroDivisionError
        return super().on_image(now_ms, delta)

    def on_timer(self, key: Hashable, now_ms: int) -> Effects[Tally]:
        if key == ("forget", "bug"):
            raise ZeroDivisionError
        return super().on_timer(key, now_ms)


async def faulty(*records: tuple[bytes, bytes | None]) -> Stage:
    """A shard with a bug, and one of another kind beside it, whose log has one name."""
    others = replace(TALLIES, holds="others")
    stage = Stage(kinds={TOPIC: replace(TALLIES, machine=lambda _: Faulty()), BESIDE: others})
    stage.logs[TOPIC].entries += [(False, record) for record in records]
    stage.logs[BESIDE].entries.append((False, (b"t", b"1")))
    await stage.become(with_both())
    return stage


def with_both(shard_epoch: int = 1, *, without_t: bool = False) -> MetadataImage:
    whole = with_tallies(shard_epoch)
    topics = {**whole.topics, BESIDE: replace(whole.topics[TOPIC], name=BESIDE, topic_id=BESIDE_ID)}
    names = {**whole.topic_names, BESIDE_ID: BESIDE}
    if without_t:
        del names[topics.pop("t").topic_id]
    shards = {**whole.shards, (BESIDE, 0): ShardImage(BESIDE, 0, 0, shard_epoch)}
    return replace(whole, topics=topics, topic_names=names, shards=shards)


async def test_a_bug_in_a_deadline_costs_one_shard_and_no_other_deadline() -> None:
    stage = await faulty((b"bug", b"1"), (b"later", b"1"))
    stage.clock.advance(KEPT_MS)
    await settle()
    assert stage.logs[BESIDE].entries[-1] == (False, (b"t", None))
    assert await add(stage, "bug", 1) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    stage.clock.advance(500)
    await settle()
    assert await add(stage, "bug", 1) == 2
    await stage.coordinator.close()


async def test_a_bug_in_an_image_costs_one_shard_and_others_follow_the_image() -> None:
    stage = await faulty((b"bug", b"1"))
    await stage.become(with_both(without_t=True))
    assert stage.logs[BESIDE].entries[-1] == (False, (b"t", None))
    stage.clock.advance(500)
    await settle()
    assert await add(stage, "bug", 1) == 2
    await stage.coordinator.close()


async def test_a_bug_in_loading_is_tried_again_and_ends_with_its_cause() -> None:
    stage = await faulty((b"bug", b"13"))
    stage.clock.advance(500)
    await settle()
    assert await add(stage, "a", 1) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    stage.logs[TOPIC].entries.pop(0)
    stage.clock.advance(1_000)
    await settle()
    assert await add(stage, "a", 1) == 1
    await stage.coordinator.close()
