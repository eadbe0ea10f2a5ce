"""A controller's terms on a shared database in memory: won, kept, lost, given away, refused."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from support.metadata import broker, topic_id
from support.metadata_store import MemoryDatabase, MemoryServer
from tailrace.clock import ManualClock
from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.features import INITIAL
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import ConfigRecord, PartitionRecord, TopicRecord
from tailrace.wire.messages import BrokerHeartbeatRequest, ServiceHeartbeatRequest
from tailrace_controller.controller import Controller
from tailrace_controller.decide import brokers
from tailrace_controller.decide.controller_result import ControllerResult
from tailrace_controller.election.acceptance import Seen
from tailrace_controller.election.candidacy import Candidacy
from tailrace_controller.election.lease import STAND_BACK_LEASES
from tailrace_controller.election.seen_file import SeenFile
from tailrace_controller.handlers import broker_heartbeat, service_heartbeat
from tailrace_controller.metadata_log.database import Database
from tailrace_controller.metadata_log.lease_row import NOBODY, Candidate, Lease

LEASE_MS = 1000.0


class Member:
    """One controller, its clock and its connection."""

    def __init__(self, number: int, server: MemoryServer, data_dir: Path | None = None) -> None:
        self.clock = ManualClock()
        self.database = MemoryDatabase(self.clock, server, shared=True)
        tools = (cast(Database, self.database), self.clock, random.Random(number), structlog.get_logger())
        candidate = Candidate(number, f"token-{number}", f"unix:/run/{number}")
        seen_file = None if data_dir is None else SeenFile(data_dir, number, candidate.token)
        candidacy = Candidacy(candidate, *tools, LEASE_MS)
        self.controller = Controller(Config.load("controller"), candidacy, *tools, seen_file)
        self.serving = asyncio.get_running_loop().create_task(self.controller.serve())

    async def pass_ms(self, total_ms: float, step_ms: float = 100) -> None:
        for _ in range(round(total_ms / step_ms)):
            self.clock.advance(step_ms)
            await turns()


async def turns(count: int = 15) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@asynccontextmanager
async def members(
    count: int = 2, server: MemoryServer | None = None, data_dir: Path | None = None
) -> AsyncIterator[list[Member]]:
    """The first is active."""
    server = server or MemoryServer()
    started = []
    try:
        for number in range(count):
            started.append(Member(number, server, data_dir))
            await started[-1].controller.ready.wait()
        yield started
    finally:
        for member in started:
            member.serving.cancel()
        await asyncio.gather(*(member.serving for member in started), return_exceptions=True)


def setting(value: str) -> Any:
    return lambda image: ControllerResult(value, (ConfigRecord(4, "", "k", value),))


def value_of(image: MetadataImage) -> str | None:
    return image.config(4, "").get("k")


async def follow(member: Member) -> None:
    member.database.notify()
    await turns()


async def test_a_standby_follows_and_says_who_is_active() -> None:
    async with members() as (active, standby):
        await active.controller.run(setting("1"))
        await follow(standby)
        assert value_of(standby.controller.committed) == "1"
        assert standby.controller.leader == (0, 1, "unix:/run/0")
        with pytest.raises(ApiError) as refused:
            await standby.controller.run(setting("2"))
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        assert refused.value.message == "controller 0 at unix:/run/0 is the active one"


async def test_a_standby_goes_on_while_a_thread_replays_thousands_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    async with members() as (active, standby):
        begun, go_on, really = asyncio.Event(), asyncio.Event(), standby.database.in_thread

        async def halted(work: Any) -> Any:
            begun.set()
            await go_on.wait()
            return await really(work)

        monkeypatch.setattr(standby.database, "in_thread", halted)
        await active.controller.run(setting("few"))
        await follow(standby)
        before = standby.controller.committed
        assert value_of(before) == "few" and not begun.is_set()
        many = tuple(ConfigRecord(4, "", f"k{number}", "1") for number in range(1_000))
        await active.controller.run(lambda _: ControllerResult(None, many))
        await follow(standby)
        assert begun.is_set() and standby.controller.committed is before
        assert standby.controller.followed.end_offset == before.offset + 1
        go_on.set()
        await turns()
        assert standby.controller.committed == active.controller.committed
        assert standby.controller.followed.end_offset == before.offset + 1_001


async def test_a_zombie_answers_nothing_after_its_lease_and_becomes_a_standby() -> None:
    async with members() as (zombie, successor):
        zombie.database.open.clear()  # it stands still
        await successor.pass_ms(1500)
        assert (successor.controller.active, successor.controller.epoch) == (True, 2)
        await successor.controller.run(setting("2"))
        zombie.clock.advance(1500)
        assert not zombie.controller.active
        asking = asyncio.create_task(zombie.controller.run(setting("1")))
        zombie.database.open.set()
        with pytest.raises(ApiError) as refused:
            await asking
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        await follow(zombie)
        assert value_of(zombie.controller.committed) == "2"
        assert (zombie.controller.leader[:2], zombie.controller.resignations) == ((1, 2), 1)
        assert [epoch for epoch, _ in zombie.database.store.server.written] == [1] * (1 + len(INITIAL)) + [2]


async def test_who_loses_the_lease_while_a_thread_decides_writes_nothing_and_its_successor_begins_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with members() as (zombie, successor):
        made = (PartitionRecord(n, topic_id(1), (0, 1), (0, 1), 0) for n in range(500))
        records = (*broker(0, 10), *broker(1, 11), TopicRecord("wide", topic_id(1)), *made)
        await zombie.controller.run(lambda _: ControllerResult(None, records))
        await follow(successor)
        begun, go_on, really = asyncio.Event(), asyncio.Event(), zombie.database.in_thread

        async def halted(work: Callable[[], object]) -> object:
            begun.set()
            await go_on.wait()
            return await really(work)

        zombie.database.open.clear()
        await successor.pass_ms(1500)
        config = zombie.controller.config
        before = zombie.controller.image
        with monkeypatch.context() as patched:
            patched.setattr(zombie.database, "in_thread", halted)
            fencing = asyncio.create_task(
                zombie.controller.run_in_thread(lambda image: brokers.expire(image, 0, 10, config))
            )
            zombie.database.open.set()
            zombie.clock.advance(LEASE_MS / 2)
            await turns(30)
            assert (zombie.controller.resignations, fencing.done()) == (1, False)
            go_on.set()
            with pytest.raises(ApiError) as refused:
                await fencing
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        assert zombie.controller.image.topics == before.topics and not zombie.controller.image.brokers[0].fenced
        assert await successor.controller.run_in_thread(lambda image: brokers.expire(image, 0, 10, config))
        await follow(zombie)
        for member in (zombie, successor):
            image = member.controller.committed
            assert image.brokers[0].fenced and all(one.leader == 1 for one in image.topics["wide"].partitions)
        epochs = [epoch for epoch, _ in zombie.database.store.server.written[-501:]]
        assert set(epochs) == {2}


async def test_a_holder_whose_renewal_is_late_lets_askers_wait_and_goes_on() -> None:
    async with members(1) as (alone,):
        alone.database.open.clear()
        alone.clock.advance(1500)
        assert not alone.controller.active
        asking = asyncio.create_task(alone.controller.run(setting("1")))
        await turns()
        assert not asking.done()
        alone.database.open.set()
        assert await asking == "1"
        assert (alone.controller.epoch, alone.controller.resignations) == (1, 0)


async def test_a_controller_that_leaves_gives_its_lease_away_and_the_next_one_need_not_wait() -> None:
    async with members() as (active, standby):
        active.serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await active.serving
        await active.controller.leave()
        assert active.database.store.server.lease.holder == NOBODY
        await follow(standby)
        assert (standby.controller.active, standby.controller.epoch) == (True, 2)


async def test_who_hears_nobody_gives_the_lease_away_once_and_takes_it_back_if_nobody_wants_it() -> None:
    async with members(1) as (alone,):
        assert alone.controller.on_silence("nobody was heard")
        await turns()
        assert alone.database.store.server.lease.holder == NOBODY
        await alone.pass_ms(STAND_BACK_LEASES * LEASE_MS - 200)
        assert not alone.controller.active
        await alone.pass_ms(400)
        assert alone.controller.active
        assert not alone.controller.on_silence("still nobody")
        alone.controller.on_heartbeat()
        assert alone.controller.on_silence("nobody again")


async def test_a_follower_that_heard_of_a_commit_before_we_did_is_waited_for() -> None:
    async with members(1) as (alone,):
        alone.database.open.clear()  # the COMMIT is on its way, and a standby has read what it wrote
        writing = asyncio.create_task(alone.controller.run(setting("1")))
        checking = asyncio.create_task(alone.controller.check(Seen(alone.controller.committed.offset + 1, 1)))
        await turns()
        assert not checking.done()
        alone.database.open.set()
        await checking
        assert (await writing, alone.controller.refusal) == ("1", "")


async def test_an_offset_that_the_database_does_not_have_makes_its_controller_refuse_until_told() -> None:
    async with members(1) as (alone,):
        with pytest.raises(ApiError) as refused:
            await alone.controller.check(Seen(50, 1))
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        await turns()
        assert "--seen-offset 50" in alone.controller.refusal
        with pytest.raises(ApiError, match="may be a restored backup"):
            await alone.controller.run(setting("1"))
        assert alone.database.store.give_up(50)
        await follow(alone)
        assert alone.controller.active
        assert alone.controller.committed.offset > 50
        assert await alone.controller.run(setting("1")) == "1"


async def test_a_standby_that_noted_the_new_epoch_first_is_no_sign_of_another_database(tmp_path: Path) -> None:
    """A controller killed and started again refused to be active when a standby of its directory was quicker."""
    server = MemoryServer()
    async with members(2, server, tmp_path) as (active, standby):
        await active.controller.run(setting("1"))
        await follow(standby)
        image = standby.controller.committed
        active.serving.cancel()
        again = Member(0, server, tmp_path)

        def note(lease: Lease) -> None:
            SeenFile(tmp_path, 1, "").note(image.cluster_id, Seen(image.offset, lease.epoch), 0, at_once=True)

        again.database.store.taken = note
        await turns()
        assert (again.controller.active, again.controller.epoch, again.controller.refusal) == (True, 2, "")
        again.serving.cancel()
        await asyncio.gather(again.serving, return_exceptions=True)


async def test_what_a_standby_noted_before_the_lease_was_taken_is_believed(tmp_path: Path) -> None:
    server = MemoryServer()
    async with members(1, server, tmp_path) as (active,):
        image = active.controller.committed
        active.serving.cancel()
        SeenFile(tmp_path, 1, "").note(image.cluster_id, Seen(image.offset + 7, 1), 0, at_once=True)
        again = Member(0, server, tmp_path)
        await turns()
        assert f"--seen-offset {image.offset + 7}" in again.controller.refusal
        again.serving.cancel()
        await asyncio.gather(again.serving, return_exceptions=True)


def context() -> Any:
    return cast(Any, SimpleNamespace(connection=object(), api_version=0))


@pytest.mark.parametrize("handle", ["broker", "service"])
async def test_heartbeats_say_how_far_their_sender_has_seen_the_log(handle: str) -> None:
    async with members(1) as (alone,):
        role = cast(Any, SimpleNamespace(controller=alone.controller, watch=None))
        with pytest.raises(ApiError) as refused:
            if handle == "broker":
                beat = BrokerHeartbeatRequest(broker_id=0, broker_epoch=7, current_metadata_offset=50)
                await broker_heartbeat.handle(beat, context(), role)
            else:
                service = ServiceHeartbeatRequest(role="gateway", service_id=0, service_epoch=7, metadata_offset=50)
                await service_heartbeat.handle(service, context(), role)
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
