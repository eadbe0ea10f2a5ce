"""Random histories of a group with members of both protocols, which is upgraded and downgraded while they go on.

The invariants of `test_consumer_group_histories.py` hold for all members, whatever the group is at the time. Besides:
no committed offset is lost by a migration, and generations and epochs never go back.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, consumes, invariant, multiple, rule

from sim.coordinator.test_consumer_group_histories import PHASES, Histories, subscriptions
from support.classic_members import ClassicMember
from support.consumer_groups import Consumer
from tailrace.errors import ErrorCode
from tailrace_coordinator.groups.classic.group import ClassicGroup
from tailrace_coordinator.groups.consumer.group import ConsumerGroup
from tailrace_coordinator.groups.offsets import OffsetToCommit


class Migrations(Histories):
    """Classic members, eager and cooperative ones, beside those of the consumer protocol."""

    classics: Bundle[ClassicMember] = Bundle("classics")

    def __init__(self) -> None:
        super().__init__()
        self.playing: list[ClassicMember] = []
        self.committed: dict[tuple[str, int], int] = {}
        self.seen_epoch = 0

    @rule(target=classics, topics=subscriptions, eager=st.booleans(), static=st.booleans())
    def join_classic(self, topics: list[str], eager: bool, static: bool) -> ClassicMember:
        self.born += 1
        member = ClassicMember(
            self.driver, *(topics or ["t"]), eager=eager, instance=f"i{self.born}" if static else None
        )
        member.join()
        self.playing.append(member)
        return member

    @rule(member=classics)
    def step(self, member: ClassicMember) -> None:
        if member in self.playing:
            member.step()

    @rule(member=classics)
    def lose_an_answer_of_a_classic_member(self, member: ClassicMember) -> None:
        if member in self.playing:
            member.loses_next = True
            member.step()

    @rule(member=consumes(classics))
    def leave_classic(self, member: ClassicMember) -> None:
        if member in self.playing:
            member.leave()
            self.playing.remove(member)

    @rule(member=consumes(classics))
    def die_classic(self, member: ClassicMember) -> None:
        """It is silent from now on; until its session ends it may use what it has."""

    @rule(target=Histories.members, member=consumes(classics))
    def change_to_the_consumer_protocol(self, member: ClassicMember) -> Any:
        """A static member comes back with the other protocol, at once."""
        if member not in self.playing or member.instance is None:
            return multiple()
        self.playing.remove(member)
        self.born += 1
        consumer = Consumer(self.driver, f"m{self.born}", instance=member.instance)
        consumer.enter(*member.topics, rebalance_ms=20_000)
        self.alive.append(consumer)
        return consumer

    @rule(target=classics, consumer=consumes(Histories.members), eager=st.booleans())
    def change_to_the_classic_protocol(self, consumer: Consumer, eager: bool) -> Any:
        if consumer not in self.alive or "instance" not in consumer.options:
            return multiple()
        self.alive.remove(consumer)
        self.driver.beat(consumer.member_id, -2, **consumer.options)
        member = ClassicMember(self.driver, "t", "u", eager=eager, instance=consumer.options["instance"])
        member.join()
        self.playing.append(member)
        return member

    @rule(member=st.one_of(classics, Histories.members), offset=st.integers(0, 1_000))
    def commit(self, member: ClassicMember | Consumer, offset: int) -> None:
        epoch = member.epoch if isinstance(member, Consumer) else member.generation
        for topic, partitions in member.owned.items():
            if member.driver is not self.driver or topic not in self.driver.topics:
                continue
            rows = [OffsetToCommit(topic, index, offset, -1, "", None) for index in partitions]
            if self.driver.commit_as("g", member.member_id, epoch, *rows) == [ErrorCode.NONE] * len(rows):
                self.committed |= {(topic, index): offset for index in partitions}

    @rule(topics=st.dictionaries(st.sampled_from(("t", "u", "v")), st.integers(1, 6)))
    def change_topics(self, topics: dict[str, int]) -> None:
        super().change_topics(topics)
        self.committed = {key: offset for key, offset in self.committed.items() if key[0] in topics}
        self._tell_the_leader()

    @rule()
    def replace_the_coordinator(self) -> None:
        super().replace_the_coordinator()
        for member in self.playing:
            member.driver, member.parked = self.driver, None
        group = self.driver.machine.groups.get("g")
        if isinstance(group, ClassicGroup):
            self.seen_epoch = group.generation_id  # one that nothing was assigned in yet is not in the log

    def _member_ids(self) -> set[str]:
        group = self.driver.machine.groups.get("g")
        return set(group.members) if isinstance(group, ClassicGroup | ConsumerGroup) else set()

    @invariant()
    def what_a_member_uses_is_its_own(self) -> None:
        known, used = self._member_ids(), list[tuple[str, int]]()
        for consumer in self.alive:
            if consumer.member_id in known:
                ending = self.ending.get(consumer.member_id, {})
                used += {
                    (name, index) for of in (consumer.owned, ending) for name, some in of.items() for index in some
                }
        for member in self.playing:
            if member.member_id in known:
                used += [(name, index) for name, some in member.owned.items() for index in some]
        assert len(used) == len(set(used))

    @invariant()
    def epochs_are_in_order(self) -> None:
        super().epochs_are_in_order()
        group = self.driver.machine.groups.get("g")
        if not isinstance(group, ClassicGroup | ConsumerGroup) or group.is_empty:
            self.seen_epoch, self.epochs = 0, (0, 0)  # the next one may begin anew
            return
        epoch = group.group_epoch if isinstance(group, ConsumerGroup) else group.generation_id
        assert self.seen_epoch <= epoch
        self.seen_epoch = epoch

    @invariant()
    def no_offset_is_lost(self) -> None:
        held = {key: row.offset for key, row in self.driver.machine.offsets.of_group("g").items()}
        assert self.committed.items() <= held.items()

    def teardown(self) -> None:
        """All settle; then those of the consumer protocol leave, and their coordinator dies at once."""
        self._settle()
        for consumer in self.alive:
            self.driver.beat(consumer.member_id, -1, **consumer.options)
        if self.alive:
            self.alive = []
            self.replace_the_coordinator()
            self._settle()

    def _settle(self) -> None:
        """The dead go with their sessions; all others settle, and share all partitions."""
        for _ in range(60):
            self.driver.advance(2_000)
            for consumer in list(self.alive):
                self._beat(consumer)
            for member in self.playing:
                member.step()
            self.driver.resolve()
        members: list[Consumer | ClassicMember] = [*self.alive, *self.playing]
        assert {member.member_id for member in members} == self._member_ids()
        group = self.driver.machine.groups.get("g")
        assert group is None or group.state in ("Stable", "Empty")
        owned = [(name, index) for each in members for name, some in each.owned.items() for index in some]
        assert len(owned) == len(set(owned))
        topics = {topic for each in members for topic in self._topics_of(each)}
        counts = self.driver.topics
        assert set(owned) == {(name, index) for name in topics for index in range(counts.get(name, 0))}

    def _tell_the_leader(self) -> None:
        """The leader of a classic group sees the topics that there are now."""
        group = self.driver.machine.groups.get("g")
        for member in self.playing:
            if isinstance(group, ClassicGroup) and member.member_id == group.leader and member.parked is None:
                member.join()

    def _topics_of(self, member: Consumer | ClassicMember) -> set[str]:
        group = self.driver.machine.groups.get("g")
        if isinstance(member, Consumer) and isinstance(group, ConsumerGroup):
            return set(group.topics_of(group.members[member.member_id]))
        return set(member.topics) if isinstance(member, ClassicMember) else set()


TestMigrations = Migrations.TestCase
TestMigrations.settings = settings(max_examples=100, stateful_step_count=50, deadline=None, phases=PHASES)
