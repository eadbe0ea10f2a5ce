"""What fencing, restarts, shutdowns and configs do to replicated partitions: nothing committed is lost by it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.metadata import CLUSTER_ID, after, broker, cluster, replicated, topic_id
from tailrace.config import Config
from tailrace.metadata import records as r
from tailrace.metadata.image import MetadataImage, PartitionImage
from tailrace.wire.messages import AlterPartitionRequest, BrokerHeartbeatRequest, BrokerRegistrationRequest
from tailrace_controller.decide import alter_partition, brokers, elections

CONFIG = Config.load("controller", overrides={"min.insync.replicas": "2"})
IMAGE = after(cluster(3), *replicated("t", 1))


def part(image: MetadataImage) -> PartitionImage:
    found = image.partition("t", 0)
    assert found is not None
    return found


def applied(image: MetadataImage, effects: Any) -> MetadataImage:
    return after(image, *effects.records)


def fence(image: MetadataImage, broker_id: int, config: Config = CONFIG) -> MetadataImage:
    return applied(image, brokers.expire(image, broker_id, image.brokers[broker_id].broker_epoch, config))


def beat(image: MetadataImage, broker_id: int, config: Config = CONFIG, **wants: bool) -> Any:
    request = BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=image.brokers[broker_id].broker_epoch,
        current_metadata_offset=1 << 40,
        want_fence=False,
        want_shut_down=wants.get("want_shut_down", False),
    )
    return brokers.heartbeat(image, image, request, config)


def register(image: MetadataImage, broker_id: int, previous_epoch: int, config: Config = CONFIG) -> MetadataImage:
    request = BrokerRegistrationRequest(
        broker_id=broker_id, cluster_id=CLUSTER_ID, incarnation_id=UUID(int=image.offset + 5000), listeners=[],
        features=[], rack=None, log_dirs=[UUID(int=1)], previous_broker_epoch=previous_epoch,
    )  # fmt: skip
    return applied(image, brokers.register(image, request, config, is_connected=False))


def restart(image: MetadataImage, broker_id: int, *, clean: bool, config: Config = CONFIG) -> MetadataImage:
    epoch = image.brokers[broker_id].broker_epoch
    image = register(image, broker_id, epoch if clean else -1, config)
    return applied(image, beat(image, broker_id, config))


def test_fencing_the_leader_of_many_moves_each_to_its_next_replica_in_sync() -> None:
    now = part(fence(IMAGE, 0))
    assert (now.leader, now.isr, now.leader_epoch, now.eligible_leader_replicas) == (1, (1, 2), 1, ())


def test_the_textbook_two_of_three_die_and_the_last_to_die_comes_back_last() -> None:
    """KIP-966 with min ISR 2: who is eligible may lead at once, who is neither in sync nor eligible may not."""
    one_left = fence(fence(IMAGE, 0), 1)
    assert (part(one_left).leader, part(one_left).isr, part(one_left).eligible_leader_replicas) == (2, (2,), (1,))
    dead = fence(one_left, 2)
    assert (part(dead).leader, part(dead).isr, part(dead).eligible_leader_replicas) == (-1, (), (1, 2))
    assert part(restart(dead, 0, clean=True)).leader == -1  # it left before the ISR fell below min ISR
    back = restart(dead, 1, clean=True)
    assert (part(back).leader, part(back).isr, part(back).leader_recovery_state) == (1, (1,), 0)
    last = restart(dead, 2, clean=True)
    assert (part(last).leader, part(last).isr) == (2, (2,))


def test_who_was_killed_is_not_eligible_and_the_last_leader_returns_when_nobody_is() -> None:
    dead = fence(fence(fence(IMAGE, 0), 1), 2)
    one = restart(dead, 1, clean=False)
    assert (part(one).leader, part(one).eligible_leader_replicas, part(one).last_known_elr) == (-1, (2,), (2,))
    two = restart(one, 2, clean=False)
    assert (part(two).leader, part(two).isr, part(two).last_known_elr, part(two).leader_recovery_state) == (
        2,
        (2,),
        (),
        1,
    )


def test_a_single_broker_comes_back_as_leader_after_a_kill_and_after_a_clean_stop() -> None:
    image = after(cluster(1), *replicated("t", 1, isr=(0,), replicas=(0,)))
    for clean in (True, False):
        back = part(restart(fence(image, 0), 0, clean=clean))
        assert (back.leader, back.isr) == (0, (0,))


def test_a_killed_leader_that_registers_before_anybody_missed_it_leaves_the_isr() -> None:
    image = register(IMAGE, 0, -1)
    assert (part(image).leader, part(image).isr) == (1, (1, 2))
    image = register(fence(fence(IMAGE, 2), 1), 0, -1)
    assert (part(image).leader, part(image).isr, part(image).eligible_leader_replicas) == (-1, (), (1,))


def test_unclean_elections_happen_where_the_topic_or_the_cluster_says_so() -> None:
    dead = fence(fence(fence(IMAGE, 0), 1), 2)
    for resource in ((2, "t"), (4, "")):
        allowed = after(dead, r.ConfigRecord(*resource, "unclean.leader.election.enable", "true"))
        back = part(restart(allowed, 0, clean=True))
        assert (back.leader, back.isr, back.eligible_leader_replicas, back.leader_recovery_state) == (0, (0,), (), 1)


def test_a_topic_may_refuse_what_the_cluster_allows() -> None:
    dead = fence(fence(fence(IMAGE, 0), 1), 2)
    name = "unclean.leader.election.enable"
    image = after(dead, r.ConfigRecord(4, "", name, "true"), r.ConfigRecord(2, "t", name, "false"))
    assert part(restart(image, 0, clean=True)).leader == -1


def test_allowing_unclean_elections_later_elects_at_once() -> None:
    stuck = restart(fence(fence(fence(IMAGE, 0), 1), 2), 0, clean=True)
    assert part(stuck).leader == -1
    assert list(elections.unclean(stuck, CONFIG)) == []
    allowed = after(stuck, r.ConfigRecord(2, "t", "unclean.leader.election.enable", "true"))
    assert part(after(allowed, *elections.unclean(allowed, CONFIG))).leader == 0


def test_controlled_shutdown_says_not_yet_while_it_moves_leaders() -> None:
    first = beat(IMAGE, 0, want_shut_down=True)
    image = applied(IMAGE, first)
    assert (part(image).leader, part(image).isr, first.reply.should_shut_down) == (1, (1, 2), False)
    second = beat(image, 0, want_shut_down=True)
    assert (second.records, second.reply.should_shut_down) == ((), True)


def test_a_broker_that_leads_nothing_that_could_move_may_go_at_once() -> None:
    assert beat(IMAGE, 1, want_shut_down=True).reply.should_shut_down
    alone = fence(fence(IMAGE, 1), 2)
    effects = beat(alone, 0, want_shut_down=True)
    assert effects.reply.should_shut_down
    assert part(applied(alone, effects)).eligible_leader_replicas == (0, 2)


def test_a_broker_that_shuts_down_is_no_candidate() -> None:
    image = applied(IMAGE, beat(IMAGE, 1, want_shut_down=True))
    assert part(fence(image, 0)).leader == 2


def test_an_unregistered_broker_leaves_the_isr_and_stays_a_replica() -> None:
    now = part(applied(IMAGE, brokers.unregister(IMAGE, 0, CONFIG)))
    assert (now.leader, now.isr, now.replicas) == (1, (1, 2), (0, 1, 2))


def test_a_lower_min_isr_forgets_who_was_eligible_only_where_somebody_leads() -> None:
    led, dead = fence(fence(IMAGE, 0), 1), fence(fence(fence(IMAGE, 0), 1), 2)
    assert part(after(led, *elections.forget_eligible(led.topics.values()))).eligible_leader_replicas == ()
    assert list(elections.forget_eligible(dead.topics.values())) == []


# -- nothing committed is lost ----------------------------------------------------------------------------------------


class Replicas:
    """Three replicas' logs as lengths, driven by the controller's decisions. A kill loses the whole log: the worst."""

    def __init__(self, min_isr: int) -> None:
        self.config = Config.load("controller", overrides={"min.insync.replicas": str(min_isr)})
        self.min_isr = min_isr
        self.image = IMAGE
        self.logs = [0, 0, 0]
        self.committed = 0
        self.unclean = 0

    def step(self, event: str, broker_id: int) -> None:
        before = part(self.image)
        getattr(self, event)(broker_id)
        now = part(self.image)
        if now.leader >= 0 and now.leader_epoch > before.leader_epoch:
            if now.leader_recovery_state and not before.leader_recovery_state:
                self.committed = min(self.committed, self.logs[now.leader])
                self.unclean += 1
            assert self.logs[now.leader] >= self.committed, f"a clean leader lacks records after {event} {broker_id}"
            self.logs = [min(length, self.logs[now.leader]) for length in self.logs]  # followers truncate

    def produce(self, _broker_id: int) -> None:
        now = part(self.image)
        if now.leader >= 0:
            self.logs[now.leader] += 1

    def replicate(self, broker_id: int) -> None:
        now = part(self.image)
        if now.leader >= 0 and not self.image.brokers[broker_id].fenced:
            self.logs[broker_id] = self.logs[now.leader]
        if now.leader >= 0 and len(now.isr) >= self.min_isr:
            self.committed = max(self.committed, min(self.logs[member] for member in now.isr))

    def shrink(self, broker_id: int) -> None:
        now = part(self.image)
        if now.leader not in (-1, broker_id):
            self.propose([member for member in now.isr if member != broker_id])

    def expand(self, broker_id: int) -> None:
        now = part(self.image)
        if now.leader >= 0 and self.logs[broker_id] >= max(self.committed, self.logs[now.leader]):
            self.propose([*now.isr, *({broker_id} - set(now.isr))])

    def propose(self, isr: Sequence[int]) -> None:
        now, known = part(self.image), self.image.brokers
        asked = AlterPartitionRequest.TopicData.PartitionData
        row = asked(
            partition_index=0, leader_epoch=now.leader_epoch, partition_epoch=now.partition_epoch,
            leader_recovery_state=0, new_isr_with_epochs=[
                asked.BrokerState(broker_id=member, broker_epoch=known[member].broker_epoch) for member in isr
            ],
        )  # fmt: skip
        topics = [AlterPartitionRequest.TopicData(topic_id=topic_id(1), partitions=[row])]
        epoch = known[now.leader].broker_epoch
        request = AlterPartitionRequest(broker_id=now.leader, broker_epoch=epoch, topics=topics)
        self.image = applied(self.image, alter_partition.alter(self.image, request, 3, self.config))

    def fence(self, broker_id: int) -> None:
        self.image = fence(self.image, broker_id, self.config)

    def back(self, broker_id: int) -> None:
        self.image = applied(self.image, beat(self.image, broker_id, self.config))

    def stop(self, broker_id: int) -> None:
        self.image = fence(
            applied(self.image, beat(self.image, broker_id, self.config, want_shut_down=True)), broker_id
        )
        self.image = restart(self.image, broker_id, clean=True, config=self.config)

    def kill(self, broker_id: int) -> None:
        self.logs[broker_id] = 0
        epoch = self.image.brokers[broker_id].broker_epoch
        self.image = register(self.image, broker_id, epoch - 1, self.config)

    def configure(self, value: int) -> None:
        self.min_isr = value + 1
        record = r.ConfigRecord(2, "t", "min.insync.replicas", str(self.min_isr))
        self.image = after(self.image, record)
        self.image = after(self.image, *elections.forget_eligible([self.image.topics["t"]]))


EVENTS = ["produce", "replicate", "shrink", "expand", "fence", "back", "stop", "kill", "configure"]


@settings(deadline=None)
@given(st.integers(1, 3), st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 2)), max_size=60))
def test_a_leader_that_is_elected_cleanly_has_all_that_was_committed(
    min_isr: int, events: list[tuple[str, int]]
) -> None:
    replicas = Replicas(min_isr)
    for event, broker_id in events:
        replicas.step(event, broker_id)


@pytest.mark.parametrize("min_isr", [1, 2])
def test_the_model_can_lose_records_at_all(min_isr: int) -> None:
    replicas = Replicas(min_isr)
    for event, broker_id in [("produce", 0), ("replicate", 1), ("replicate", 2), ("shrink", 1), ("shrink", 2)]:
        replicas.step(event, broker_id)
    assert replicas.committed == 1
    for event, broker_id in [("kill", 1), ("kill", 2), ("kill", 0), ("back", 0)]:
        replicas.step(event, broker_id)
    assert (replicas.committed, replicas.unclean) == (0, 1)


def test_registering_for_the_first_time_changes_no_partition() -> None:
    image = register(after(IMAGE, *broker(3, 77)), 4, -1)
    assert part(image) == part(IMAGE)


@given(
    st.lists(st.tuples(st.sampled_from([(0, 1, 2), (1, 2, 0), (0, 1), (0,), (2,), ()]), st.integers(-1, 2)), min_size=1)
)
def test_partitions_that_change_together_change_as_each_would_alone(states: list[tuple[tuple[int, ...], int]]) -> None:
    """Each kind of state is decided once; topics differ in min.insync.replicas and in unclean elections."""
    live = after(
        cluster(3),
        *(record for n, (isr, leader) in enumerate(states) for record in replicated(f"t{n}", n, isr, leader=leader)),
    )
    for n in range(0, len(states), 2):
        live = after(live, r.ConfigRecord(2, f"t{n}", "min.insync.replicas", "1"))
    for n in range(0, len(states), 3):
        live = after(live, r.ConfigRecord(2, f"t{n}", "unclean.leader.election.enable", "true"))
    for broker_id in range(3):
        together = fence(live, broker_id)
        for name, topic in live.topics.items():
            alone = replace(live, topics={name: topic})
            assert fence(alone, broker_id).topics[name] == together.topics[name]
