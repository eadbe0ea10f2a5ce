"""A real controller on SQLite and real followers over Unix sockets: following, caching, fencing, restarts, locks."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import structlog
import structlog.testing

from support.controllers import WAIT_MS, Node, creation, heartbeat, live_broker
from support.waiting import HUNG_S, another_process
from tailrace.config import ConfigError
from tailrace.errors import ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import FeatureLevelRecord
from tailrace.net.address import Address
from tailrace.net.client import Client, Disconnected
from tailrace.wire.messages import (
    RegisterServiceRequest,
    ReportGroupsRequest,
)
from tailrace_controller.decide.controller_result import ControllerResult


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_a_topic_created_at_the_controller_appears_in_every_followers_image(node: Node) -> None:
    async with node.controller(), node.follower("a") as one, node.follower("b") as two:
        await live_broker(node, one)
        response = await one.ask_controller(creation("events"), timeout_ms=WAIT_MS)
        assert response.topics[0].error_code == 0
        for follower in (one, two):
            image = await follower.wait_for(lambda image: "events" in image.topics, WAIT_MS)
            assert image.leader("events", 0) == 0
            assert not follower.stale
        assert one.image == two.image


async def test_who_catches_up_has_what_another_one_wrote(node: Node) -> None:
    async with node.controller(), node.follower("a") as writer, node.follower("b") as reader:
        await live_broker(node, writer)
        for number in range(20):
            await writer.ask_controller(creation(f"t{number}"), timeout_ms=WAIT_MS)
            assert await reader.catch_up(WAIT_MS)
            assert f"t{number}" in reader.image.topics


async def test_a_topic_waits_for_the_first_broker_that_can_hold_it(node: Node) -> None:
    async with node.controller(), node.follower() as follower:
        created = asyncio.create_task(follower.ask_controller(creation("early"), timeout_ms=WAIT_MS))
        await live_broker(node, follower)
        assert (await created).topics[0].error_code == ErrorCode.NONE


async def test_nobody_catches_up_without_a_controller(node: Node) -> None:
    async with node.follower() as follower:
        assert not await follower.catch_up(50)


async def test_subscribers_see_every_image_once_and_in_order(node: Node) -> None:
    async with node.controller(), node.follower() as follower:
        seen: list[tuple[int, int]] = []
        follower.subscribe(lambda old, new: seen.append((old.offset, new.offset)))
        await live_broker(node, follower)
        await follower.ask_controller(creation("a"), timeout_ms=WAIT_MS)
        await follower.ask_controller(creation("b"), timeout_ms=WAIT_MS)
        await follower.wait_for(lambda image: "b" in image.topics, WAIT_MS)
        assert [new for _, new in seen[:-1]] == [old for old, _ in seen[1:]]
        assert all(old < new for old, new in seen)


async def test_a_follower_restarted_without_any_controller_has_its_last_image_marked_stale(node: Node) -> None:
    async with node.controller(), node.follower() as follower:
        await live_broker(node, follower)
        await follower.ask_controller(creation("kept"), timeout_ms=WAIT_MS)
        before = await follower.wait_for(lambda image: "kept" in image.topics, WAIT_MS)
    async with node.follower() as again:
        assert again.image == before
        assert again.stale
        with pytest.raises((TimeoutError, Disconnected)):
            await again.ask_controller(creation("x"), timeout_ms=50)
        async with node.controller() as role:
            assert role.controller.epoch == 2
            fresh = asyncio.Event()
            again.subscribe(lambda old, new: fresh.set())
            await live_broker(node, again, incarnation=2)
            await asyncio.wait_for(fresh.wait(), HUNG_S)
            assert not again.stale


async def test_a_bug_in_a_subscriber_ends_the_service_instead_of_freezing_its_image(node: Node) -> None:
    def bug(old: MetadataImage, new: MetadataImage) -> None:
        raise ZeroDivisionError

    async with node.controller():
        with pytest.raises(ZeroDivisionError):
            async with node.follower() as follower:
                follower.subscribe(bug)
                await asyncio.Event().wait()


async def test_a_corrupt_cache_is_no_cache(node: Node) -> None:
    async with node.controller(), node.follower() as follower:
        await follower.wait_for(lambda image: bool(image.cluster_id), WAIT_MS)
    (cache,) = (node.directory / "metadata-cache").iterdir()
    cache.write_bytes(cache.read_bytes()[:-1])
    async with node.follower() as again:
        assert again.image == MetadataImage()


async def test_a_follower_far_behind_gets_the_snapshot_in_chunks_and_then_the_log(node: Node) -> None:
    async with node.controller() as role, node.follower("a") as first:
        role.controller.snapshots.records_between = 50
        await live_broker(node, first)
        for step in range(4):
            names = [f"topic-{step}-{number}-{'x' * 200}" for number in range(40)]
            await first.ask_controller(creation(*names), timeout_ms=WAIT_MS)
        await first.wait_for(lambda image: len(image.topics) == 160, WAIT_MS)
        assert role.controller.followed.start_offset > 0
        async with node.follower("late") as late:
            image = await late.wait_for(lambda image: len(image.topics) == 160, WAIT_MS)
            assert image == first.image


async def test_a_controller_with_a_lower_epoch_is_refused(node: Node) -> None:
    async with node.controller() as role, node.follower() as follower:
        await follower.wait_for(lambda image: bool(image.cluster_id), WAIT_MS)
        offset = follower.image.offset
        follower.controller_epoch = 99  # as if it had followed a successor of this zombie
        await role.controller.run(_change)
        await another_process(lambda: follower.stale)
        with pytest.raises(TimeoutError):
            await follower.wait_for(lambda image: image.offset > offset, 300)
        assert follower.stale


def _change(image: MetadataImage) -> Any:
    from tailrace.metadata.records import NoOpRecord
    from tailrace_controller.decide.controller_result import ControllerResult

    return ControllerResult(None, (NoOpRecord(),))


async def test_a_second_controller_on_the_same_database_is_refused_in_a_sentence(node: Node) -> None:
    async with node.controller():
        with pytest.raises(ConfigError, match="SQLite metadata allows one controller only"):
            async with node.controller():
                raise AssertionError("two controllers")


async def test_a_database_of_a_newer_tailrace_is_refused_in_a_sentence(node: Node) -> None:
    async with node.controller():
        pass
    with closing(sqlite3.connect(node.directory / "metadata.db")) as user, user:
        user.execute("update schema_version set version = 99")
    with pytest.raises(ConfigError, match="schema version 99, this Tailrace knows 3"):
        async with node.controller():
            raise AssertionError("a controller on an unknown schema")


async def test_a_level_that_only_a_newer_tailrace_knows_is_neither_followed_nor_decided_on(node: Node) -> None:
    finalized = ControllerResult(None, (FeatureLevelRecord("share.version", 1),))
    async with node.controller() as role, node.follower() as follower:
        before = await follower.wait_for(lambda image: bool(image.features), WAIT_MS)
        with structlog.testing.capture_logs() as lines:
            await role.controller.run(lambda image: finalized)
            await another_process(
                lambda: any("share.version is at level 1" in str(line.get("why")) for line in lines) and follower.stale
            )
            with pytest.raises(TimeoutError):
                await follower.wait_for(lambda image: image.offset > before.offset, 500)
    with pytest.raises(ConfigError, match=r"share.version is at level 1, and this version of Tailrace does not know"):
        async with node.controller():
            raise AssertionError("a controller of an older version")


async def test_a_log_with_a_record_that_only_a_newer_tailrace_knows_is_refused_in_a_sentence(node: Node) -> None:
    async with node.controller():
        pass
    with closing(sqlite3.connect(node.directory / "metadata.db")) as user, user:
        user.execute("update records set record = ? where offset = 0", (bytes((1, 99, 0)),))
    with pytest.raises(ConfigError, match="cannot be read: a metadata record of frame 1, api key 99, version 0"):
        async with node.controller():
            raise AssertionError("a controller that skips records")


async def test_another_cluster_is_not_followed(tmp_path: Path) -> None:
    node = Node(tmp_path)
    async with node.controller(), node.follower("witness") as follower:
        seen = await follower.wait_for(lambda image: bool(image.cluster_id), WAIT_MS)
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"metadata.db{suffix}").unlink(missing_ok=True)
    async with node.controller() as role, node.follower("witness") as follower:
        with pytest.raises(TimeoutError):
            await follower.wait_for(lambda image: image is not seen and image.cluster_id != seen.cluster_id, 200)
        assert role.controller.committed.cluster_id != seen.cluster_id
        assert (follower.image, follower.stale) == (seen, True)


# -- liveness ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def broker_process(node: Node) -> AsyncIterator[Client]:
    """A broker's heartbeat connection, whose end is what the controller sees of its death."""
    client = Client(Address(str(node.directory / "run" / "controller-0.sock"), -1), "broker-0")
    try:
        yield client
    finally:
        await client.close()


async def test_a_dead_broker_is_fenced_at_once_and_leads_again_when_it_is_back(tmp_path: Path) -> None:
    node = Node(tmp_path, settings={"broker.session.timeout.ms": "600000"})  # which does not end here
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(node.controller())
        follower = await stack.enter_async_context(node.follower())
        listener = await node.listen("broker.sock")
        async with broker_process(node) as client:
            await live_broker(node, follower, client.ask)
            await follower.ask_controller(creation("events"), timeout_ms=WAIT_MS)
            await follower.wait_for(lambda image: image.leader("events", 0) == 0, WAIT_MS)
            listener.close()
            await listener.wait_closed()
        await follower.wait_for(lambda image: image.brokers[0].fenced and image.leader("events", 0) == -1, WAIT_MS)
        async with broker_process(node) as client:
            await live_broker(node, follower, client.ask, incarnation=2)
            image = await follower.wait_for(lambda image: image.leader("events", 0) == 0, WAIT_MS)
            partition = image.partition("events", 0)
            assert partition is not None
            assert partition.leader_epoch == 2


async def test_a_broken_connection_alone_fences_nobody(node: Node) -> None:
    async with node.controller() as role, node.follower() as follower:
        listener = await node.listen("broker.sock")
        async with broker_process(node) as client:
            epoch = await live_broker(node, follower, client.ask)
        async with broker_process(node) as client:  # the broker comes back over a new connection
            answer = await client.ask(heartbeat(0, epoch, epoch), timeout_ms=WAIT_MS)
            assert (answer.error_code, answer.is_fenced) == (0, False)
            assert role.watch.sessions.is_connected("broker", 0, besides=None)
        assert not role.controller.image.brokers[0].fenced
        listener.close()


async def test_a_silent_broker_is_fenced_after_the_session_timeout(tmp_path: Path) -> None:
    # Long enough that the follower sees it live first, also where this process gets no turn for a while.
    node = Node(tmp_path, settings={"broker.session.timeout.ms": "3000"})
    async with node.controller(), node.follower() as follower:
        listener = await node.listen("broker.sock")
        async with broker_process(node) as client:
            await live_broker(node, follower, client.ask)
            await follower.wait_for(lambda image: 0 in image.brokers and not image.brokers[0].fenced, WAIT_MS)
            await follower.wait_for(lambda image: image.brokers[0].fenced, WAIT_MS)
        listener.close()


async def test_a_second_living_broker_of_the_same_id_is_refused(node: Node) -> None:
    async with node.controller(), node.follower() as follower:
        listener = await node.listen("broker.sock")
        async with broker_process(node) as first, broker_process(node) as second:
            await live_broker(node, follower, first.ask)
            answer = await second.ask(node.registration(0, 99, "broker.sock"), timeout_ms=WAIT_MS)
            assert answer.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        listener.close()


async def test_coordinators_share_the_offsets_topic_and_a_dead_ones_shards_move(node: Node) -> None:
    def owners(image: MetadataImage) -> set[int]:
        return {shard.owner for shard in image.shards.values()}

    async with node.controller(), node.follower() as follower, broker_process(node) as stays:
        await live_broker(node, follower)
        await follower.ask_controller(creation("__consumer_offsets", partitions=4), timeout_ms=WAIT_MS)
        listener = await node.listen("coordinator-0.sock")
        await stays.ask(service(node, 0), timeout_ms=WAIT_MS)
        async with broker_process(node) as dies:
            await dies.ask(service(node, 1), timeout_ms=WAIT_MS)
            before = await follower.wait_for(lambda image: owners(image) == {0, 1}, WAIT_MS)
        after = await follower.wait_for(lambda image: owners(image) == {0}, WAIT_MS)
        for key, shard in before.shards.items():
            assert after.shards[key].shard_epoch >= shard.shard_epoch
        listener.close()


def service(node: Node, number: int) -> RegisterServiceRequest:
    endpoint = RegisterServiceRequest.ServiceEndpoint(
        name="UNIX-boot", host=str(node.directory / f"coordinator-{number}.sock"), port=0
    )
    return RegisterServiceRequest(
        role="coordinator", service_id=number, incarnation_id=UUID(int=number + 1), endpoints=[endpoint]
    )


# -- the database -----------------------------------------------------------------------------------------------------


async def test_heartbeats_are_answered_while_a_users_lock_holds_up_decisions(node: Node) -> None:
    async with node.controller() as role, node.follower() as follower:
        epoch = await live_broker(node, follower)
        user = sqlite3.connect(node.directory / "metadata.db", isolation_level=None)
        user.execute("begin immediate")
        creating = asyncio.create_task(follower.ask_controller(creation("events"), timeout_ms=WAIT_MS))
        for _ in range(3):
            answer = await follower.ask_controller(heartbeat(0, epoch, epoch), timeout_ms=WAIT_MS)
            assert (answer.error_code, answer.is_fenced) == (0, False)
        assert not creating.done()
        user.execute("rollback")
        user.close()
        assert (await creating).topics[0].error_code == 0
        assert role.controller.active
        user.close()


async def test_a_users_query_is_answered_under_load_and_an_open_one_stalls_nothing(node: Node) -> None:
    async with node.controller(), node.follower() as follower:
        await live_broker(node, follower)
        await follower.ask_controller(creation("first"), timeout_ms=WAIT_MS)
        user = sqlite3.connect(node.directory / "metadata.db", isolation_level=None)
        user.execute("begin")
        assert user.execute("select name from topics").fetchall() == [("first",)]
        for number in range(10):
            response = await follower.ask_controller(creation(f"t{number}"), timeout_ms=WAIT_MS)
            assert response.topics[0].error_code == 0
        assert user.execute("select count(*) from topics").fetchone() == (1,)  # its own snapshot
        user.execute("commit")
        assert user.execute("select count(*) from topics").fetchone() == (11,)
        user.close()


async def test_a_coordinators_report_shows_in_the_views(node: Node) -> None:
    async with node.controller(), broker_process(node) as client:
        registered = await client.ask(service(node, 0), timeout_ms=WAIT_MS)

        async def report(epoch: int, *, first: bool, kind: str = "groups") -> int:
            request = ReportGroupsRequest(
                service_id=0, service_epoch=epoch, kind=kind, first=first, last=True,
                payload=b'[{"group_id": "g", "state": "Stable", "type": "classic", "members": 3}]',
            )  # fmt: skip
            return int((await client.ask(request, timeout_ms=WAIT_MS)).error_code)

        epoch = registered.service_epoch
        assert await report(epoch, first=False) == ErrorCode.INVALID_REQUEST  # its beginning went elsewhere
        assert await report(epoch + 1, first=True) == ErrorCode.STALE_BROKER_EPOCH
        assert await report(epoch, first=True, kind="brokers") == ErrorCode.INVALID_REQUEST
        assert await report(epoch, first=True) == 0
        with closing(sqlite3.connect(node.directory / "metadata.db")) as user:
            assert user.execute("select group_id, state, members from groups").fetchall() == [("g", "Stable", 3)]


async def test_an_older_database_than_a_follower_has_seen_is_not_followed(tmp_path: Path) -> None:
    node = Node(tmp_path)
    async with node.controller(), node.follower("witness") as follower:
        await live_broker(node, follower)
        backup = sqlite3.connect(tmp_path / "backup.db")
        with closing(sqlite3.connect(tmp_path / "metadata.db")) as source:
            source.backup(backup)
        backup.close()
        await follower.ask_controller(creation("after-the-backup"), timeout_ms=WAIT_MS)
        seen = await follower.wait_for(lambda image: "after-the-backup" in image.topics, WAIT_MS)
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"metadata.db{suffix}").unlink(missing_ok=True)
    (tmp_path / "backup.db").rename(tmp_path / "metadata.db")
    async with node.controller(), node.follower("witness") as follower:
        with pytest.raises(TimeoutError):
            await follower.wait_for(lambda image: image is not seen and "after-the-backup" not in image.topics, 300)
        assert (follower.image, follower.stale) == (seen, True)
