"""The controller's order of things: decide, append, publish, answer; and what it does in doubt."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import cast
from uuid import UUID

import pytest
import structlog

from support.metadata import after, broker, topic_id
from support.metadata_store import MemoryDatabase
from tailrace.clock import ManualClock
from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.features import INITIAL
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import ConfigRecord, MetadataRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from tailrace.net.metadata.batches import decode_snapshot, replay
from tailrace.steps import Steps, whole
from tailrace.wire.messages import BrokerRegistrationRequest, BrokerRegistrationResponse
from tailrace_controller.controller import Controller
from tailrace_controller.decide import brokers
from tailrace_controller.decide.controller_result import ControllerResult
from tailrace_controller.election.candidacy import Candidacy
from tailrace_controller.metadata_log import bootstrap
from tailrace_controller.metadata_log.database import Database
from tailrace_controller.metadata_log.lease_row import Candidate
from tailrace_controller.metadata_log.stored import OutcomeUnknown, ReportPart

LEASE_MS = 1000.0
FIRST = len(bootstrap.first_records(UUID(int=1)))  # what every log begins with


def controller_on(database: MemoryDatabase, node_id: int = 0) -> Controller:
    """A controller as app.py builds it."""
    clock = database.store.clock
    candidate = Candidate(node_id, f"token-{node_id}", f"unix:/run/{node_id}", exclusive=not database.shared)
    tools = (cast(Database, database), clock, random.Random(node_id), structlog.get_logger())
    candidacy = Candidacy(candidate, *tools, LEASE_MS)
    return Controller(Config.load("controller"), candidacy, *tools)


@asynccontextmanager
async def running(database: MemoryDatabase | None = None) -> AsyncIterator[tuple[Controller, MemoryDatabase]]:
    database = database or MemoryDatabase(ManualClock())
    controller = controller_on(database)
    serving = asyncio.get_running_loop().create_task(controller.serve())
    await controller.ready.wait()
    try:
        yield controller, database
    finally:
        serving.cancel()


def setting(value: str, count: int = 1) -> Callable[[MetadataImage], ControllerResult[str]]:
    records: tuple[MetadataRecord, ...] = tuple(ConfigRecord(4, "", f"k{n}", value) for n in range(count))
    return lambda image: ControllerResult(f"set {value}", records)


def reading(image: MetadataImage) -> ControllerResult[str | None]:
    return ControllerResult(image.config(4, "").get("k0"))


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_an_empty_log_begins_with_the_cluster_id() -> None:
    async with running() as (controller, database):
        assert len(controller.committed.cluster_id) == 22
        types = ["ClusterRecord", *["FeatureLevelRecord"] * len(INITIAL)]
        assert [record.type for record in database.store.records] == types
        assert controller.committed.features["transaction.version"] == 2


async def test_a_reply_leaves_only_when_its_records_are_committed() -> None:
    async with running() as (controller, database):
        database.open.clear()
        asking = asyncio.create_task(controller.run(setting("1")))
        await turns()
        assert not asking.done()
        assert controller.followed.end_offset == FIRST
        database.open.set()
        assert await asking == "set 1"
        assert controller.followed.end_offset == FIRST + 1


async def test_a_read_waits_behind_what_it_saw_unless_it_may_not() -> None:
    async with running() as (controller, database):
        database.open.clear()
        writing = asyncio.create_task(controller.run(setting("1")))
        await turns()
        reader = asyncio.create_task(controller.run(reading))
        assert await controller.run(reading, behind=False) == "1"
        await turns()
        assert not reader.done()
        database.open.set()
        assert await reader == "1"
        await writing


async def test_decisions_taken_during_an_append_share_the_next_one() -> None:
    async with running() as (controller, database):
        database.open.clear()
        asking = [asyncio.create_task(controller.run(setting(str(n)))) for n in range(6)]
        await turns()
        database.open.set()
        assert await asyncio.gather(*asking) == [f"set {n}" for n in range(6)]
        assert database.store.server.appends == [FIRST, 6]
        # each decision is a batch of its own, so that no follower sees half of one
        assert [record.base_offset for record in database.store.records[FIRST:]] == list(range(FIRST, FIRST + 6))


@pytest.mark.parametrize("written", [True, False])
async def test_an_unknown_outcome_answers_nobody_and_reloads_what_the_log_says(written: bool) -> None:
    async with running() as (controller, database):
        database.store.fail_next = OutcomeUnknown("the answer to COMMIT was lost")
        database.store.written_all_the_same = written
        with pytest.raises(ApiError) as refused:
            await controller.run(setting("1"))
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        await turns(10)
        assert (controller.active, controller.epoch) == (True, 2)
        assert await controller.run(reading) == ("1" if written else None)


async def test_what_the_database_cannot_hold_is_refused_to_its_sender_alone() -> None:
    async with running() as (controller, database):
        database.store.cannot_hold = b"no"
        database.open.clear()
        asking = [asyncio.create_task(controller.run(setting(value))) for value in ("1", "no", "3")]
        await turns()
        reader = asyncio.create_task(controller.run(reading))
        await turns()
        database.open.set()
        found = await asyncio.gather(*asking, reader, return_exceptions=True)
        assert found[0] == "set 1"
        codes = [one.code for one in found[1:] if isinstance(one, ApiError)]
        assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER]
        assert (controller.active, controller.epoch, controller.resignations) == (True, 1, 0)
        assert controller.image is controller.committed
        assert await controller.run(setting("4")) == "set 4"
        assert [record.offset for record in database.store.records] == list(range(FIRST + 2))


async def test_a_read_shows_nothing_of_a_decision_that_the_database_cannot_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as (controller, database):
        thread = Thread(database, monkeypatch)
        database.store.cannot_hold = b"no"
        database.open.clear()
        writing = asyncio.create_task(controller.run(setting("no")))
        await turns()
        listing = asyncio.create_task(controller.read(lambda image: image.config(4, "").get("k0")))
        await turns()
        database.open.set()
        with pytest.raises(ApiError):
            await writing
        assert await controller.run(setting("4")) == "set 4"  # at the offset that the other one would have had
        thread.go_on.set()
        with pytest.raises(ApiError) as refused:
            await listing
        assert refused.value.code is ErrorCode.NOT_CONTROLLER


async def test_a_restarted_controller_has_the_image_of_its_predecessor_and_a_higher_epoch() -> None:
    async with running() as (first, database):
        await first.run(setting("1"))
        kept = first.committed
    async with running(database) as (second, _):
        assert (second.epoch, second.committed) == (2, kept)


async def test_snapshots_truncate_the_log_but_keep_the_part_since_the_last_one() -> None:
    async with running() as (controller, database):
        controller.snapshots.records_between = 10
        await controller.run(setting("1", count=20))
        await controller.run(setting("2", count=20))
        await turns(10)
        snapshot = controller.followed.snapshot
        assert snapshot is not None
        assert (snapshot.end_offset, controller.followed.start_offset) == (FIRST + 40, FIRST + 20)
        assert decode_snapshot(snapshot) == controller.committed
    async with running(database) as (again, _):
        assert again.committed == controller.committed
        assert again.followed.start_offset == FIRST + 20


async def test_nobody_waits_for_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fenced broker's thousands of records are followed by one, and by what its partitions' new leaders ask for."""
    async with running() as (controller, _):
        begun, go = asyncio.Event(), asyncio.Event()

        async def slowly(steps: Steps[object]) -> object:
            begun.set()
            await go.wait()
            return whole(steps)

        monkeypatch.setattr("tailrace_controller.metadata_log.snapshots.turns.in_turns", slowly)
        controller.snapshots.records_between = 10
        await controller.run(setting("1", count=20))
        await begun.wait()
        assert await controller.run(setting("2")) == "set 2"
        go.set()
        await turns(10)
        snapshot = controller.followed.snapshot
        assert snapshot is not None
        assert (snapshot.end_offset, controller.followed.end_offset) == (FIRST + 20, FIRST + 21)


async def test_followers_read_whole_batches_from_any_offset_they_may_have() -> None:
    async with running() as (controller, _):
        for value in "123":
            await controller.run(setting(value, count=2))
        log = controller.followed
        assert replay(MetadataImage(), log.read(0, 1 << 20)) == controller.committed
        image = replay(MetadataImage(), log.read(0, 1))
        while image.offset < controller.committed.offset:
            image = replay(image, log.read(image.offset + 1, 1))
        assert image == controller.committed
        assert log.read(log.end_offset, 1 << 20) == b""
        assert replay(image, log.read(FIRST + 1, 1 << 20)) is image  # batches it already holds
        assert [log.epoch_before(offset) for offset in (0, 1, FIRST + 6, FIRST + 7)] == [None, 1, 1, None]


async def test_a_long_poll_ends_with_news_or_with_its_time() -> None:
    async with running() as (controller, _):
        poll = asyncio.create_task(controller.wait_for(FIRST, timeout_ms=500))
        await turns()
        assert not poll.done()
        await controller.run(setting("1"))
        await poll
        late = asyncio.create_task(controller.wait_for(FIRST + 1, timeout_ms=500))
        await turns()
        assert isinstance(controller.clock, ManualClock)
        controller.clock.advance(499)
        await turns()
        assert not late.done()
        controller.clock.advance(1)
        await late
        await controller.wait_for(FIRST, timeout_ms=500)  # behind the log already: at once


async def test_more_than_the_database_can_take_is_refused_before_it_is_decided() -> None:
    async with running() as (controller, database):
        controller.deferred.records_max = 10
        database.open.clear()
        first = asyncio.create_task(controller.run(setting("1")))
        await turns()
        second = asyncio.create_task(controller.run(setting("2", count=11)))
        await turns()
        with pytest.raises(ApiError) as refused:
            await controller.run(setting("3"))
        assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT
        database.open.set()
        assert (await first, await second) == ("set 1", "set 2")


async def test_a_report_that_is_not_stored_is_no_reason_to_resign() -> None:
    async with running() as (controller, _):
        await controller.report(0, ReportPart("groups", [], 5, last=True))
        assert controller.active


class Thread:
    """What a controller runs beside its loop, halted."""

    def __init__(self, database: MemoryDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self._really = database.in_thread
        monkeypatch.setattr(database, "in_thread", self)

    async def __call__(self, work: Callable[[], object]) -> object:
        self.begun.set()
        await self.go_on.wait()
        return await self._really(work)


async def test_reads_and_heartbeats_go_on_while_a_long_decision_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as (controller, database):
        thread = Thread(database, monkeypatch)
        asking = asyncio.create_task(controller.run_long(setting("1")))
        await thread.begun.wait()
        assert await controller.run(reading) is None
        assert await controller.run(reading, behind=False) is None
        thread.go_on.set()
        assert await asking == "set 1"
        assert await controller.run(reading) == "1"


async def test_a_short_write_waits_for_the_long_decision_at_hand_and_for_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as (controller, database):
        thread, order = Thread(database, monkeypatch), list[str]()

        async def note(asked: Awaitable[str]) -> None:
            order.append(await asked)

        tasks = [asyncio.create_task(note(controller.run_long(setting(value)))) for value in ("long", "longer")]
        await thread.begun.wait()
        tasks.append(asyncio.create_task(note(controller.run(setting("short")))))
        await turns()
        assert order == []
        thread.go_on.set()
        await asyncio.gather(*tasks)
        assert order == ["set long", "set short", "set longer"]
        assert await controller.run(reading) == "longer"


def crowded(count: int = 2_000) -> list[MetadataRecord]:
    """Two live brokers that lead half of a topic's partitions each; some have no other replica in sync."""
    made = (PartitionRecord(n, topic_id(1), (0, 1), (0, 1) if n % 4 else (0,), n % 2) for n in range(count))
    return [*broker(0, 10), *broker(1, 11), TopicRecord("wide", topic_id(1)), *made]


async def test_what_comes_while_a_thread_fences_is_decided_on_what_it_has_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker comes back, a topic is deleted: nobody sees the half of it, and nobody's change is lost."""
    async with running() as (controller, database):
        await controller.run(lambda _: ControllerResult(None, tuple(crowded())))
        before = controller.image

        def registering(image: MetadataImage) -> ControllerResult[BrokerRegistrationResponse]:
            return brokers.register(image, anew, controller.config, is_connected=False)

        def deleting(image: MetadataImage) -> ControllerResult[None]:
            return ControllerResult(None, (RemoveTopicRecord(topic_id(1)),))

        known = [
            BrokerRegistrationRequest.Feature(name=name, min_supported_version=0, max_supported_version=level)
            for name, level in before.features.items()
        ]
        anew = BrokerRegistrationRequest(
            broker_id=0, cluster_id="", incarnation_id=UUID(int=9), listeners=[], features=known, rack=None,
            log_dirs=[], previous_broker_epoch=-1,
        )  # fmt: skip
        thread = Thread(database, monkeypatch)
        expire = partial(brokers.expire, broker_id=0, broker_epoch=10, config=controller.config)
        fencing = asyncio.create_task(controller.run_in_thread(expire))
        await thread.begun.wait()
        registered = asyncio.create_task(controller.run_in_thread(registering))
        deleted = asyncio.create_task(controller.run(deleting))
        assert await controller.run(reading) is None and await controller.run(reading, behind=False) is None
        await turns()
        assert controller.image is before and not any(task.done() for task in (fencing, registered, deleted))
        thread.go_on.set()
        assert await fencing is True
        await asyncio.gather(registered, deleted)
        fenced = after(before, *brokers.expire(before, 0, 10, controller.config).records)
        again = after(fenced, *registering(fenced).records)
        assert again.offset > fenced.offset + 1, "the broker may have lost records: it leaves what it could still lead"
        expected = after(again, RemoveTopicRecord(topic_id(1)))
        assert controller.image == replace(expected, epoch=controller.epoch)
        assert (await registered).broker_epoch == fenced.offset + 1
        assert [len(list(rows)) for _, rows in groupby(database.store.records, attrgetter("base_offset"))][-3:] == [
            fenced.offset - before.offset,
            again.offset - fenced.offset,
            1,
        ]


async def test_a_controller_that_resigned_meanwhile_takes_no_long_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as (controller, database):
        thread = Thread(database, monkeypatch)
        database.open.clear()
        database.store.fail_next = OutcomeUnknown("the answer to COMMIT was lost")
        lost = asyncio.create_task(controller.run(setting("0")))
        await turns()
        writing = asyncio.create_task(controller.run_long(setting("1")))
        await thread.begun.wait()
        listing = asyncio.create_task(controller.read(lambda image: image.config(4, "").get("k0")))
        await turns()
        database.open.set()
        with pytest.raises(ApiError):
            await lost
        await turns(10)
        assert controller.active
        thread.go_on.set()
        for asking in (writing, listing):
            with pytest.raises(ApiError) as refused:
                await asking
            assert refused.value.code == ErrorCode.NOT_CONTROLLER
        assert await controller.run(reading) is None
