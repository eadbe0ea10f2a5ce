"""What the controller does by itself: preferred leaders, growing internal topics, unclean elections that came late."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from support.metadata import after, broker, cluster, replicated, topic, topic_id
from tailrace.clock import ManualClock
from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.metadata import records as r
from tailrace.metadata.image import MetadataImage
from tailrace_controller.controller import Controller
from tailrace_controller.decide import internal_topics, preferred_leaders
from tailrace_controller.decide.controller_result import ControllerResult
from tailrace_controller.decision import Decided, decided
from tailrace_controller.periodic import LOOK_EVERY_MS, PeriodicTasks

CONFIG = Config.load("controller", overrides={"leader.imbalance.check.interval.seconds": "10"})
AWAY = after(
    cluster(3),
    *replicated("a", 1, isr=(1, 0), leader=1),
    *replicated("b", 2, isr=(1, 2), leader=1),
    *replicated("c", 3, isr=(2, 0), leader=2),
)


def test_leaders_go_back_to_first_replicas_that_are_in_sync() -> None:
    effects = preferred_leaders.restore(AWAY, CONFIG)
    image = after(AWAY, *effects.records)
    assert ([image.leader(name, 0) for name in "abc"], effects.reply) == ([0, 1, 0], False)
    assert preferred_leaders.restore(image, CONFIG) == ControllerResult(False, ())


def test_not_all_leaders_move_at_once() -> None:
    effects = preferred_leaders.restore(AWAY, CONFIG, limit=1)
    assert (len(effects.records), effects.reply) == (1, True)


def test_a_first_replica_that_is_fenced_or_shuts_down_does_not_lead_again() -> None:
    fenced = r.BrokerRegistrationChangeRecord(0, 10, fenced=1)
    leaving = r.BrokerRegistrationChangeRecord(0, 10, in_controlled_shutdown=1)
    for change in (fenced, leaving):
        image = after(AWAY, change)
        assert preferred_leaders.restore(image, CONFIG).records == ()


def grown(image: MetadataImage) -> MetadataImage:
    return after(image, *internal_topics.grow(image, CONFIG))


def completed(image: MetadataImage, name: str = GROUP_METADATA_TOPIC) -> MetadataImage:
    """As if every added replica had caught up."""
    found = image.topics[name]
    whole = tuple(replace(one, isr=one.replicas, adding_replicas=()) for one in found.partitions)
    return replace(image, topics={**image.topics, name: replace(found, partitions=whole)})


def test_the_offsets_topic_of_one_broker_grows_to_three_and_its_preferred_leaders_spread() -> None:
    image = grown(after(cluster(3), *topic("__consumer_offsets", 1, [0] * 6), *topic("events", 2, [0])))
    partitions = image.topics["__consumer_offsets"].partitions
    assert all(sorted(one.replicas) == [0, 1, 2] and one.adding_replicas == (1, 2) for one in partitions)
    assert all((one.leader, one.isr, one.leader_epoch) == (0, (0,), 0) for one in partitions)
    assert [one.replicas[0] for one in partitions] == [0, 1, 2, 0, 1, 2]
    assert image.topics["events"].partitions[0].replicas == (0,)
    assert list(internal_topics.grow(image, CONFIG)) == []  # under way
    assert list(internal_topics.grow(completed(image), CONFIG)) == []


def test_an_internal_topic_grows_broker_by_broker_and_never_shrinks() -> None:
    one = after(cluster(1), *topic("__consumer_offsets", 1, [0]))
    assert list(internal_topics.grow(one, CONFIG)) == []
    two = completed(grown(replace(one, brokers=cluster(2).brokers)))
    assert sorted(two.topics["__consumer_offsets"].partitions[0].replicas) == [0, 1]
    four = completed(grown(replace(two, brokers=cluster(4).brokers)))
    assert len(four.topics["__consumer_offsets"].partitions[0].replicas) == 3
    assert list(internal_topics.grow(replace(four, brokers=cluster(1).brokers), CONFIG)) == []


def test_new_replicas_go_to_racks_that_have_none() -> None:
    racks = {0: "a", 1: "a", 2: "b", 3: "c"}
    brokers = {number: replace(found, rack=racks[number]) for number, found in cluster(4).brokers.items()}
    image = replace(after(cluster(4), *topic("__consumer_offsets", 1, [0, 1])), brokers=brokers)
    chosen = [one.replicas for one in grown(image).topics["__consumer_offsets"].partitions]
    assert all({racks[replica] for replica in replicas} == {"a", "b", "c"} for replicas in chosen)


class Fake:
    """A controller that applies what is decided at once."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.clock = ManualClock()
        self.config = CONFIG
        self.active = True
        self.refusing = False
        self.decisions = 0

    async def run(self, decide: Any, *, behind: bool = True) -> Any:
        self.decisions += 1
        if self.refusing:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        made: Decided[Any] = decided(decide, self.image, 3)
        self.image = made.after
        return made.reply

    run_in_thread = run


async def pass_by(fake: Fake, ms: int) -> None:
    for _ in range(0, ms, LOOK_EVERY_MS):
        fake.clock.advance(LOOK_EVERY_MS)
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
def fake() -> Any:
    return Fake(after(AWAY, *topic("__consumer_offsets", 9, [0])))


async def test_internal_topics_grow_soon_and_leaders_move_after_the_interval(fake: Fake) -> None:
    periodic = PeriodicTasks(cast(Controller, fake))
    periodic.on_activated()
    await pass_by(fake, LOOK_EVERY_MS)
    assert len(fake.image.topics["__consumer_offsets"].partitions[0].replicas) == 3
    assert fake.image.features["eligible.leader.replicas.version"] == 1
    await pass_by(fake, 8000)
    assert fake.image.leader("a", 0) == 1
    await pass_by(fake, 2000)
    assert (fake.image.leader("a", 0), periodic.preferred_elections) == (0, 2)
    periodic.close()


async def test_an_internal_topic_that_was_made_smaller_stays_so_until_a_broker_joins(fake: Fake) -> None:
    periodic = PeriodicTasks(cast(Controller, fake))
    periodic.on_activated()
    await pass_by(fake, LOOK_EVERY_MS)
    assert internal_topics.are_moving(fake.image)
    fake.image = completed(fake.image)
    await pass_by(fake, LOOK_EVERY_MS)
    offsets = topic_id(9)
    emptied = r.PartitionChangeRecord(0, offsets, replicas=(0, 1), isr=(0, 1))  # `broker drain 2 --shrink`
    fake.image = after(fake.image, emptied)
    await pass_by(fake, 3000)
    assert fake.image.topics["__consumer_offsets"].partitions[0].replicas == (0, 1)
    fake.image = after(fake.image, *broker(3, 500))
    await pass_by(fake, LOOK_EVERY_MS)
    assert len(fake.image.topics["__consumer_offsets"].partitions[0].replicas) == 3
    periodic.close()


async def test_who_joins_while_replicas_are_added_is_not_forgotten(fake: Fake) -> None:
    everybody, fake.image = fake.image.brokers, replace(fake.image, brokers=cluster(2).brokers)
    periodic = PeriodicTasks(cast(Controller, fake))
    periodic.on_activated()
    await pass_by(fake, LOOK_EVERY_MS)
    fake.image = replace(fake.image, brokers=everybody)
    await pass_by(fake, LOOK_EVERY_MS)
    assert len(fake.image.topics["__consumer_offsets"].partitions[0].replicas) == 2
    fake.image = completed(fake.image)
    await pass_by(fake, LOOK_EVERY_MS)
    assert len(fake.image.topics["__consumer_offsets"].partitions[0].replicas) == 3
    periodic.close()


async def test_an_image_that_does_not_change_costs_no_decision(fake: Fake) -> None:
    periodic = PeriodicTasks(cast(Controller, fake))
    periodic.on_activated()
    await pass_by(fake, 3000)
    before = fake.decisions
    await pass_by(fake, 5000)
    assert fake.decisions == before
    periodic.close()
    await pass_by(fake, 20_000)
    assert fake.decisions == before


async def test_what_was_refused_is_tried_again_at_the_next_look(fake: Fake) -> None:
    fake.refusing = True
    periodic = PeriodicTasks(cast(Controller, fake))
    periodic.on_activated()
    await pass_by(fake, 2000)
    fake.refusing = False
    await pass_by(fake, 1000)
    assert len(fake.image.topics["__consumer_offsets"].partitions[0].replicas) == 3
    periodic.close()


async def test_a_controller_that_is_not_active_decides_nothing(fake: Fake) -> None:
    fake.active = False
    periodic = PeriodicTasks(cast(Controller, fake))
    periodic.on_activated()
    await pass_by(fake, 20_000)
    assert fake.decisions == 0
    periodic.close()


async def test_a_partition_that_may_be_led_uncleanly_is_found_at_the_interval() -> None:
    image = after(cluster(1), *replicated("u", 1, isr=(), leader=-1))
    fake = Fake(after(image, r.ConfigRecord(2, "u", "unclean.leader.election.enable", "true")))
    fake.config = Config.load("controller", overrides={"unclean.leader.election.interval.ms": "2000"})
    periodic = PeriodicTasks(cast(Controller, fake))
    periodic.on_activated()
    await pass_by(fake, 1000)
    assert fake.image.leader("u", 0) == -1
    await pass_by(fake, 2000)
    assert fake.image.leader("u", 0) == 0
    assert fake.image.topic_by_id(topic_id(1)) is not None
    periodic.close()
