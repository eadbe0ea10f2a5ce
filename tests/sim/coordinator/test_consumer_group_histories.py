"""Random histories of a consumer group, with the invariants of KIP-848's public TLA+ specification.

After each step: no partition is used by two members; a partition is free as long as the group says so; no member is
ahead of the assignment, nor that of the group; epochs of the log never go back; and another coordinator that reads the
log knows the same group. At the end of every history the members that are left settle on the target assignment.
"""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from support.consumer_groups import Consumer, ConsumerDriver, Partitions, settle
from tailrace.errors import ApiError
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.consumer.group import ConsumerGroup
from tailrace_coordinator.groups.modern.reconciliation import MemberState

TOPICS = ("t", "u", "v")
subscriptions = st.sets(st.sampled_from(TOPICS)).map(sorted)


class Histories(RuleBasedStateMachine):
    """Members join, go silent, die, lose answers; topics come and go; the coordinator is replaced."""

    members: Bundle[Consumer] = Bundle("members")

    def __init__(self) -> None:
        super().__init__()
        self.driver = ConsumerDriver({"t": 4, "u": 2})
        self.alive: list[Consumer] = []
        self.born = 0
        self.epochs = (0, 0)
        self.ending: dict[str, Partitions] = {}  # what a member uses until its next heartbeat

    @initialize(in_thread=st.booleans())
    def choose_where_targets_are_computed(self, in_thread: bool) -> None:
        """At once, or between two steps while the members go on."""
        if in_thread:
            config = GroupConfig(group_initial_rebalance_delay_ms=0, max_rows_assigned_at_once=0)
            self.driver = ConsumerDriver(self.driver.topics, config)

    @rule(target=members, topics=subscriptions, static=st.booleans(), assignor=st.sampled_from((None, "range")))
    def join(self, topics: list[str], static: bool, assignor: str | None) -> Consumer:
        self.born += 1
        name = f"m{self.born}"
        consumer = Consumer(self.driver, name, **({"instance": f"i{self.born}"} if static else {}))
        consumer.enter(*topics, assignor=assignor, rebalance_ms=20_000)
        self.alive.append(consumer)
        return consumer

    @rule(target=members, regex=st.sampled_from(("t|u", "[uv]", ".*")))
    def join_by_expression(self, regex: str) -> Consumer:
        self.born += 1
        consumer = Consumer(self.driver, f"m{self.born}")
        consumer.enter(regex=regex, rebalance_ms=20_000)
        self.alive.append(consumer)
        return consumer

    def _beat(self, consumer: Consumer, **options: Any) -> None:
        before = consumer.owned  # it stops with what it is to give up when it has sent this
        answer = consumer.beat(**options)
        self.ending[consumer.member_id] = before
        if isinstance(answer, ApiError):  # out, or fenced: it gives everything up
            consumer.owned = self.ending[consumer.member_id] = {}
            if consumer in self.alive:
                self.alive.remove(consumer)

    @rule(consumer=members)
    def beat(self, consumer: Consumer) -> None:
        if consumer in self.alive:
            self._beat(consumer)

    @rule(consumer=members)
    def lose_the_answer(self, consumer: Consumer) -> None:
        """The member does not hear of what it was told."""
        if consumer in self.alive:
            before = (consumer.epoch, consumer.owned)
            self._beat(consumer)
            if consumer in self.alive:
                consumer.epoch, consumer.owned = before
                consumer.missed_an_answer = True

    @rule(consumer=members, topics=subscriptions)
    def subscribe(self, consumer: Consumer, topics: list[str]) -> None:
        if consumer in self.alive:
            self._beat(consumer, topics=topics)

    @rule(consumer=members)
    def join_again(self, consumer: Consumer) -> None:
        if consumer in self.alive and "instance" not in consumer.options:
            consumer.enter("t", rebalance_ms=20_000)
            self.ending.pop(consumer.member_id, None)

    @rule(consumer=consumes(members))
    def leave(self, consumer: Consumer) -> None:
        if consumer in self.alive:
            self.driver.beat(consumer.member_id, -1, **consumer.options)
            self.alive.remove(consumer)

    @rule(target=members, consumer=consumes(members))
    def restart(self, consumer: Consumer) -> Any:
        """A static member comes back under another id."""
        if consumer not in self.alive or "instance" not in consumer.options:
            return consumer if consumer in self.alive else multiple()
        self.driver.beat(consumer.member_id, -2, **consumer.options)
        self.alive.remove(consumer)
        self.born += 1
        after = Consumer(self.driver, f"m{self.born}", **consumer.options)
        after.enter("t", "u", rebalance_ms=20_000)
        self.alive.append(after)
        return after

    @rule(consumer=consumes(members))
    def die(self, consumer: Consumer) -> None:
        """Without a word: its session decides, and until then it may use what it has."""

    @rule(delay_ms=st.sampled_from((500, 1_000, 10_000, 20_000, 45_000)))
    def wait(self, delay_ms: int) -> None:
        self.driver.advance(delay_ms)

    @rule()
    def resolve(self) -> None:
        self.driver.resolve()

    @rule(topics=st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 6)))
    def change_topics(self, topics: dict[str, int]) -> None:
        self.driver.set_topics(**topics)

    @rule()
    def replace_the_coordinator(self) -> None:
        after = self.driver.again()
        self._assert_same(after)
        self.driver = after
        for consumer in self.alive:
            consumer.driver = after

    def _group(self) -> ConsumerGroup | None:
        return self.driver.machine.groups.of_kind(ConsumerGroup, "g")

    def _assert_same(self, after: ConsumerDriver) -> None:
        group, other = self._group(), after.machine.groups.of_kind(ConsumerGroup, "g")
        assert (group is None) == (other is None)
        if group is not None and other is not None:
            for name in ("members", "currents", "targets", "owners", "expressions", "static_members", "keys"):
                assert getattr(group, name) == getattr(other, name), name
            for name in ("group_epoch", "assignment_epoch", "subscribed_topics", "used_expressions", "size_bytes"):
                assert getattr(group, name) == getattr(other, name), name

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = self._group()
        owned = (
            [] if group is None else [each for member in group.members for each in group.current(member).partitions()]
        )
        assert len(owned) == len(set(owned))
        if group is not None:
            assert set(owned) == {(topic, index) for topic, of in group.owners.items() for index in of}

    @invariant()
    def what_a_member_uses_is_its_own(self) -> None:
        """Also while it has not heard that it is to give it up, or has not done so."""
        group = self._group()
        used: list[tuple[str, int]] = []
        for consumer in self.alive:
            if group is not None and consumer.member_id in group.members:
                ending = self.ending.get(consumer.member_id, {})
                used += {
                    (name, index) for of in (consumer.owned, ending) for name, some in of.items() for index in some
                }
        assert len(used) == len(set(used))

    @invariant()
    def epochs_are_in_order(self) -> None:
        group = self._group()
        if group is None:
            return
        assert group.assignment_epoch <= group.group_epoch
        assert self.epochs <= (group.group_epoch, group.assignment_epoch)
        self.epochs = (group.group_epoch, group.assignment_epoch)
        for member_id in group.members:
            current = group.current(member_id)
            assert current.member_epoch <= group.assignment_epoch
            assert current.previous_member_epoch <= max(current.member_epoch, group.assignment_epoch)
            assert bool(current.pending_revocation) == (current.state == MemberState.UNREVOKED_PARTITIONS)

    def teardown(self) -> None:
        """Dead members go with their sessions; the others settle."""
        group = self._group()
        if group is None:
            return
        for _ in range(5):
            self.driver.advance(10_000)
            for consumer in list(self.alive):
                self._beat(consumer)
            self.driver.resolve()
        settle(self.driver, *self.alive)
        assert {consumer.member_id for consumer in self.alive} == set(group.members)
        for consumer in self.alive:
            target = group.targets.get(consumer.member_id, {})
            names = self.driver.image.topic_names
            assert consumer.owned == {names[topic]: set(of) for topic, of in target.items()}
        owned = {(name, index) for each in self.alive for name, some in each.owned.items() for index in some}
        counts = self.driver.topics if self.alive else {}
        resolved = (topic for name in group.used_expressions for topic in group.expressions[name].topics)
        assert owned == {
            (name, index) for name in {*group.subscribed_topics, *resolved} for index in range(counts.get(name, 0))
        }


# To explain a failure takes minutes on Python 3.11.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=250, stateful_step_count=50, deadline=None, phases=PHASES)
