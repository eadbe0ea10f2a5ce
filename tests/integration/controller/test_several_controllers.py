"""Three controllers on a real PostgreSQL server: who is active, what the others do, every way to lose the database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from support.controllers import WAIT_MS, Node, creation, heartbeat, live_broker
from support.postgres import Postgres
from support.quorum import Member, Quorum, create
from support.waiting import HUNG_S
from tailrace.errors import ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import NoOpRecord
from tailrace.net.address import Address
from tailrace.net.client import Client
from tailrace.net.identity import Identity
from tailrace.net.metadata.follower import MetadataFollower
from tailrace.wire.messages import DescribeQuorumRequest
from tailrace_controller.commands import accept_restored
from tailrace_controller.decide.controller_result import ControllerResult

ALREADY = ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.fixture
async def quorum(tmp_path: Path, postgres: Postgres) -> Quorum:
    return Quorum(tmp_path, postgres)


def patient(tmp_path: Path, postgres: Postgres) -> Quorum:
    """Has a lease that a database might use up, but not a machine that is short of breath."""
    return Quorum(tmp_path, postgres, **{"controller.quorum.election.timeout.ms": "5000"})


async def has(follower: MetadataFollower, *names: str) -> MetadataImage:
    return await follower.wait_for(lambda image: all(name in image.topics for name in names), WAIT_MS)


def change(image: MetadataImage) -> ControllerResult[None]:
    return ControllerResult(None, (NoOpRecord(),))


def no_epoch_twice(postgres: Postgres) -> None:
    """The log is dense, and its epochs only grow."""
    rows = postgres.query('select "offset", epoch from records order by "offset"')
    offsets, epochs = [row[0] for row in rows], [row[1] for row in rows]
    assert offsets == list(range(len(offsets)))
    assert epochs == sorted(epochs)  # type: ignore[type-var]


async def test_one_controller_is_active_and_the_others_follow_its_log(tmp_path: Path, postgres: Postgres) -> None:
    quorum = patient(tmp_path, postgres)
    async with quorum.running() as controllers, quorum.follower() as follower:
        assert [controller.active for controller in controllers] == [True, False, False]
        await live_broker(quorum.members[0].node, follower)
        assert await create(follower, "events") == 0
        await has(follower, "events")
        await quorum.agree(follower, *controllers)
        assert {controller.leader[:2] for controller in controllers} == {(0, 1)}


async def test_the_active_controller_tells_how_far_its_standbys_and_brokers_are(quorum: Quorum) -> None:
    async with quorum.running() as (active, *standbys), quorum.follower() as follower:
        epoch = await live_broker(quorum.members[0].node, follower)
        await quorum.agree(follower, *standbys)
        clients = [Client(described_at(member), "a client", RELAYED) for member in quorum.members]
        try:
            end_offset = active.committed.offset + 1
            async with asyncio.timeout(HUNG_S):  # a standby has an image a moment before it says so
                while True:
                    told = await clients[0].ask(described(), timeout_ms=WAIT_MS)
                    (partition,) = told.topics[0].partitions
                    if all(voter.log_end_offset == end_offset for voter in partition.current_voters):
                        break
            assert (told.error_code, partition.leader_id, partition.leader_epoch) == (0, 0, active.epoch)
            assert partition.high_watermark == end_offset
            voters = [(voter.replica_id, voter.log_end_offset) for voter in partition.current_voters]
            assert voters == [(0, end_offset), (1, end_offset), (2, end_offset)]
            assert all(voter.last_caught_up_timestamp > 0 for voter in partition.current_voters)
            observers = [(observer.replica_id, observer.log_end_offset) for observer in partition.observers]
            assert observers == [(0, epoch + 1)]  # as its last heartbeat said
            assert [(node.node_id, node.listeners) for node in told.nodes] == [(0, []), (1, []), (2, [])]
            assert (await clients[1].ask(described(), timeout_ms=WAIT_MS)).error_code == ErrorCode.NOT_CONTROLLER
            await quorum.members[2].stop()
            await create(follower, "more")
            told = await clients[0].ask(described(), timeout_ms=WAIT_MS)
            ends = [voter.log_end_offset for voter in told.topics[0].partitions[0].current_voters]
            assert ends[2] == end_offset < ends[0]  # what it was when it was heard last
        finally:
            for client in clients:
                await client.close()


RELAYED = Identity(listener="CLIENT")


def described() -> DescribeQuorumRequest:
    topic = DescribeQuorumRequest.TopicData
    partitions = [topic.PartitionData(partition_index=0)]
    return DescribeQuorumRequest(topics=[topic(topic_name="__cluster_metadata", partitions=partitions)])


def described_at(member: Member) -> Address:
    return Address(str(member.node.directory / "run" / f"controller-{member.node.config.node_id}.sock"), -1)


async def test_a_standby_says_who_is_active_and_serves_the_log(quorum: Quorum, tmp_path: Path) -> None:
    async with quorum.running():
        standby = Client(Address(str(tmp_path / "run" / "controller-1.sock"), -1), "test")
        answer = await standby.ask(creation("events"), timeout_ms=WAIT_MS)
        assert answer.topics[0].error_code == ErrorCode.NOT_CONTROLLER
        assert (
            answer.topics[0].error_message == f"controller 0 at unix:{tmp_path}/run/controller-0.sock is the active one"
        )
        await standby.close()
    only_standby = {"controller.quorum.bootstrap.servers": f"unix:{tmp_path}/run/controller-1.sock"}
    again = Quorum(tmp_path, quorum.postgres)
    async with again.running(2):
        active = await again.active()
        await active.run(change)
        async with Node(tmp_path, 9, only_standby).follower("alone") as follower:
            await follower.wait_for(lambda image: image.offset == active.committed.offset, WAIT_MS)
            assert not follower.stale
            assert (follower.controller_id, follower.controller) == (active.node_id, None)


async def test_a_controller_that_stops_hands_over_at_once(quorum: Quorum) -> None:
    async with quorum.running() as controllers, quorum.follower() as follower:
        await live_broker(quorum.members[0].node, follower)
        await quorum.members[0].stop()
        # it took the lease from nobody: it did not have to wait until the row was old
        assert quorum.postgres.query("select holder from lease") != [(0,)]
        successor = await quorum.active(controllers[0])
        assert successor.epoch == 2
        assert await create(follower, "events") == 0


async def test_a_controller_cut_from_the_database_is_succeeded_and_follows_when_it_is_back(quorum: Quorum) -> None:
    async with quorum.running() as controllers, quorum.follower() as follower:
        await live_broker(quorum.members[0].node, follower)
        quorum.members[0].proxy.cut()
        successor = await quorum.active(controllers[0])
        assert await create(follower, "events") == 0
        assert not controllers[0].active
        quorum.members[0].proxy.mend()
        await has(follower, "events")
        await quorum.agree(follower, *controllers)
        assert (successor.active, controllers[0].leader[:2]) == (True, (successor.node_id, 2))
        no_epoch_twice(quorum.postgres)


async def test_a_database_that_acknowledges_and_says_nothing_is_noticed_within_the_lease(quorum: Quorum) -> None:
    async with quorum.running() as controllers, quorum.follower() as follower:
        await live_broker(quorum.members[0].node, follower)
        quorum.members[0].proxy.hang()
        asking = asyncio.create_task(follower.ask_controller(creation("events"), timeout_ms=WAIT_MS))
        await quorum.active(controllers[0])
        # 36 where the one that made it was deposed before it said so: its machine was short of breath
        assert (await asking).topics[0].error_code in (0, ALREADY)
        await quorum.until(lambda: "resigned" in quorum.members[0].said)
        quorum.members[0].proxy.mend()
        await has(follower, "events")
        await quorum.agree(follower, *controllers)
        await quorum.active()  # the successor, or on a machine that is short of breath whoever followed it
        no_epoch_twice(quorum.postgres)


async def test_a_commit_whose_answer_is_lost_is_in_the_log_once_and_never_repeated(quorum: Quorum) -> None:
    async with quorum.running(1) as (controller,), quorum.follower() as follower:
        await live_broker(quorum.members[0].node, follower)
        quorum.members[0].proxy.lose_the_next_commit()
        # the controller resigned and read its own commit: asked again, it says that the topic is there
        assert await create(follower, "events") == ALREADY
        assert quorum.members[0].proxy.commit_lost.is_set()
        assert (controller.resignations, controller.epoch) == (1, 2)
        image = await has(follower, "events")
        assert image.topics["events"].topic_id
        created = quorum.postgres.query("select count(*) from records where type = 'TopicRecord'")
        assert created == [(1,)]
        no_epoch_twice(quorum.postgres)


async def test_a_slow_database_makes_decisions_slow_and_nothing_else(tmp_path: Path, postgres: Postgres) -> None:
    quorum = patient(tmp_path, postgres)
    async with quorum.running() as controllers, quorum.follower() as follower:
        await live_broker(quorum.members[0].node, follower)
        for member in quorum.members:
            member.proxy.delay_s = 0.1
        for name in ("a", "b"):
            assert await create(follower, name) == 0
        await has(follower, "a", "b")
        assert [controller.epoch for controller in controllers] == [1, -1, -1]
        assert controllers[0].resignations == 0


async def test_a_database_that_is_away_and_restarted_leaves_images_as_they_are(
    quorum: Quorum, postgres: Postgres
) -> None:
    async with quorum.running() as controllers, quorum.follower() as follower:
        await live_broker(quorum.members[0].node, follower)
        assert await create(follower, "before") == 0
        image = await has(follower, "before")
        postgres.stop()
        try:
            await quorum.until(lambda: follower.stale and not any(controller.active for controller in controllers))
            assert follower.image.topics == image.topics
            async with quorum.follower("restarted") as without_cache:
                await has(without_cache, "before")  # standbys serve what they know, database or not
            async with quorum.follower("gateway-1"):
                pass
        finally:
            postgres.start()
        await quorum.active()
        assert await create(follower, "after") == 0
        await has(follower, "before", "after")
        assert not follower.stale
        no_epoch_twice(postgres)


async def test_a_zombies_answers_are_refused(quorum: Quorum) -> None:
    async with quorum.running(), quorum.follower() as follower:
        broker_epoch = await live_broker(quorum.members[0].node, follower)
        follower.controller_epoch = 7  # as if it had heard of a successor
        with pytest.raises((TimeoutError, ConnectionError)):
            await follower.ask_controller(heartbeat(0, broker_epoch, 1), timeout_ms=200)
        assert follower.stale


async def test_a_controller_that_hears_nobody_lets_another_one_try(tmp_path: Path, postgres: Postgres) -> None:
    quorum = Quorum(tmp_path, postgres, **{"broker.session.timeout.ms": "4000"})
    async with quorum.running() as controllers, AsyncExitStack() as opened:
        first = Client(Address(str(tmp_path / "run" / "controller-0.sock"), -1), "broker")
        opened.push_async_callback(first.close)
        node = quorum.members[0].node
        beats = []
        for broker_id in (0, 1):
            registered = await first.ask(node.registration(broker_id, broker_id + 1, "broker.sock"), timeout_ms=WAIT_MS)
            beats.append(heartbeat(broker_id, registered.broker_epoch, registered.broker_epoch))
        for beat in beats * 2:  # the last two change nothing and come at once: both fall silent together
            assert not (await first.ask(beat, timeout_ms=WAIT_MS)).is_fenced
        # from here on they cannot reach it: nobody heartbeats
        successor = await quorum.active(controllers[0])
        assert not any(broker.fenced for broker in successor.committed.brokers.values())


# -- a restored backup ------------------------------------------------------------------------------------------------


@pytest.fixture
async def restored(quorum: Quorum, postgres: Postgres) -> AsyncIterator[tuple[MetadataFollower, MetadataImage]]:
    """A follower that has seen what the server, put back to a backup, does not hold; its controllers are stopped."""
    async with quorum.follower() as follower:
        async with quorum.running():
            await live_broker(quorum.members[0].node, follower)
            assert await create(follower, "kept") == 0
            await has(follower, "kept")
            await _backup(postgres)
            assert await create(follower, "lost") in (0, 36)  # 36: asked again, after an answer that was lost
            seen = await has(follower, "lost")
        postgres.stop()
        postgres.restore(postgres.directory / "backup")
        postgres.start()
        yield follower, seen


async def _backup(postgres: Postgres) -> None:
    await asyncio.to_thread(postgres.stop)
    await asyncio.to_thread(postgres.backup)
    await asyncio.to_thread(postgres.start)


async def test_a_restored_backup_is_refused_until_told_and_then_every_leader_epoch_rises(
    tmp_path: Path, postgres: Postgres, restored: tuple[MetadataFollower, MetadataImage]
) -> None:
    follower, seen = restored
    # controllers that know nothing themselves: the follower is the only witness
    fresh = Quorum(tmp_path, postgres)
    for member in fresh.members:
        directory = tmp_path / f"fresh-{member.node.config.node_id}"
        member.node.environment = replace(member.node.environment, data_dir=directory)
    async with fresh.running() as controllers:
        await fresh.until(fresh.refuses)
        assert (follower.image, follower.stale) == (seen, True)
        assert not any(controller.active for controller in controllers)
        refusal = next(controller.refusal for controller in controllers if controller.refusal)
        offset = int(refusal.rpartition(" ")[2])
        assert offset >= seen.offset
        assert accept_restored.accept(postgres.url, offset - 1) == 1
        assert accept_restored.accept(postgres.url, offset) == 0
        active = await fresh.active()
        image = await follower.wait_for(lambda image: "lost" not in image.topics, WAIT_MS)
        old, new = seen.topics["kept"].partitions[0], image.topics["kept"].partitions[0]
        assert new.leader_epoch > old.leader_epoch
        assert image.next_producer_id > seen.next_producer_id
        assert (image.offset > seen.offset, active.epoch > seen.epoch) == (True, True)
        await fresh.until(lambda: not follower.stale)


async def test_the_controllers_own_directory_is_a_witness_too(
    tmp_path: Path, postgres: Postgres, restored: tuple[MetadataFollower, MetadataImage]
) -> None:
    again = Quorum(tmp_path, postgres)
    async with again.running() as controllers:
        await again.until(again.refuses)
        assert not any(controller.active for controller in controllers)
        rows = postgres.query("select max(epoch) from records")
        assert rows == [(1,)]
