"""Members of consumer groups (KIP-848) as a client plays them, on the group machine alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from support.groups import START_MS, Driver
from tailrace.errors import ApiError
from tailrace.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from tailrace.state import KeyValue
from tailrace.wire.messages import ConsumerGroupHeartbeatRequest
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.consumer.expressions import ResolveExpressions
from tailrace_coordinator.groups.consumer.group import ConsumerGroup
from tailrace_coordinator.groups.consumer.heartbeat import Heartbeat
from tailrace_coordinator.groups.consumer.target import ComputeTargets
from tailrace_coordinator.groups.machine import GroupEffects
from tailrace_coordinator.topic_regex_resolver import matches

Partitions = dict[str, set[int]]
REBALANCE_MS = 60_000


def topic_id(name: str) -> UUID:
    """The id that a topic of that name has in these tests."""
    return UUID(bytes=name.encode().rjust(16, b"\1"))


def image_of(topics: Mapping[str, int], offset: int = 0) -> MetadataImage:
    """An image with topics of so many partitions."""
    images = {
        name: TopicImage(name, topic_id(name), tuple(PartitionImage((1,), (1,), 1, 0, 0) for _ in range(count)))
        for name, count in topics.items()
    }
    broker = BrokerImage(1, 1, UUID(int=1), rack="a", fenced=False)
    names = {topic.topic_id: name for name, topic in images.items()}
    return MetadataImage(offset=offset, topics=images, topic_names=names, brokers={1: broker})


class ConsumerDriver(Driver):
    """A driver whose members send ConsumerGroupHeartbeat."""

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        config: GroupConfig | None = None,
        log: Sequence[KeyValue] = (),
        now_ms: int = START_MS,
    ) -> None:
        self.topics = dict(topics or {})
        super().__init__(config, log, image_of(self.topics), now_ms)

    def again(self) -> ConsumerDriver:
        """The same log in a new coordinator, at the same time."""
        after = ConsumerDriver(self.topics, self.config, self.log, self.now_ms)
        after.token = self.token  # ids that it gives are new ones
        return after

    def set_topics(self, **topics: int) -> None:
        """The cluster has these topics now."""
        self.topics = topics
        self.become(image_of(topics, self.image.offset + 1))

    def group(self, group_id: str = "g") -> ConsumerGroup:
        """A consumer group as it is now."""
        group = self.machine.groups.of_kind(ConsumerGroup, group_id)
        assert group is not None
        return group

    def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        group_id: str = "g",
        owned: Mapping[str, set[int]] | None = None,
        topics: Sequence[str] | None = None,
        regex: str | None = None,
        instance: str | None = None,
        rack: str | None = None,
        rebalance_ms: int = -1,
        assignor: str | None = None,
        version: int = 1,
        client_id: str = "client",
        may_describe: Callable[[str], bool] | None = None,
    ) -> Any:
        """One heartbeat: its answer, or the code and message of its refusal."""
        row = ConsumerGroupHeartbeatRequest.TopicPartitions
        rows = None
        if owned is not None:
            rows = [row(topic_id=topic_id(name), partitions=sorted(some)) for name, some in owned.items()]
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rack_id=rack,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=None if topics is None else list(topics),
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=rows,
        )
        beat = Heartbeat(request, version, client_id, "/127.0.0.1", f"uuid{self.token + 1}", may_describe)
        token = self._run(self._next(), lambda: self.machine.consumer_heartbeat(self.now_ms, self.token, beat))
        return self.answers.get(token)

    def enter(self, member_id: str, *topics: str, **options: Any) -> Any:
        """A first heartbeat, or one of a member that joins again."""
        options = {"rebalance_ms": REBALANCE_MS, "owned": {}, **options}
        if "regex" not in options:
            options["topics"] = topics
        return self.beat(member_id, 0, **options)

    def resolve(self) -> None:
        """Does what the machine asked the shell for: matches regular expressions, computes target assignments."""
        actions, self.actions = self.actions, []
        for action in actions:
            self._run(self._next(), partial(self._resolved, action))

    def _resolved(self, action: ResolveExpressions | ComputeTargets) -> GroupEffects:
        if isinstance(action, ComputeTargets):
            return self.machine.take_targets(self.now_ms, self.token, action, action.compute())
        found = matches(action.expressions, tuple(self.topics), action.may_describe)
        return self.machine.take_expressions(self.now_ms, self.token, action.group_id, found, self.image.offset)

    def describe_consumers(self, group_id: str = "g") -> Any:
        """What ConsumerGroupDescribe shows of a group, or the ApiError."""
        answer = self.ask(lambda token: self.machine.describe_consumer_groups(self.now_ms, token, [group_id]))
        return answer[group_id]


def told(answer: Any) -> Partitions | None:
    """The partitions that an answer hands to the member, None where it is told of none."""
    if answer.assignment is None:
        return None
    rows = answer.assignment.topic_partitions
    return {row.topic_id.bytes.lstrip(b"\1").decode(): set(row.partitions) for row in rows}


def refused(answer: Any) -> tuple[str, str | None]:
    """The code and the message of a refusal."""
    assert isinstance(answer, ApiError), answer
    return answer.code.name, answer.message


class Consumer:
    """A member that does what it is told at once: it gives partitions up, and says so with its next heartbeat."""

    def __init__(self, driver: ConsumerDriver, member_id: str, **options: Any) -> None:
        self.driver = driver
        self.member_id = member_id
        self.options = options  # group_id, instance, client_id
        self.epoch = 0
        self.owned: Partitions = {}
        self.said: dict[str, Any] = {}
        self.missed_an_answer = False

    def enter(self, *topics: str, **options: Any) -> Any:
        """Joins, with nothing."""
        self.owned = {}
        self.said = {"rebalance_ms": REBALANCE_MS, "topics": None if "regex" in options else topics, **options}
        self.missed_an_answer = False
        return self._take(self.driver.enter(self.member_id, *topics, **self.options, **options))

    def beat(self, **options: Any) -> Any:
        """Says what it owns; after an answer that it missed it says everything again, as clients do."""
        self.said.update(options)
        if self.missed_an_answer:
            options, self.missed_an_answer = self.said, False
        return self._take(self.driver.beat(self.member_id, self.epoch, owned=self.owned, **self.options, **options))

    def _take(self, answer: Any) -> Any:
        if not isinstance(answer, ApiError):
            self.epoch = answer.member_epoch
            partitions = told(answer)
            self.owned = self.owned if partitions is None else partitions
        return answer


def settle(driver: ConsumerDriver, *members: Consumer) -> None:
    """Lets the members send heartbeats until nothing changes any more."""
    for _ in range(10):
        driver.advance(1_000)
        before = [(member.epoch, member.owned) for member in members]
        for member in members:
            member.beat()
        is_done = not driver.actions
        driver.resolve()
        if is_done and [(member.epoch, member.owned) for member in members] == before:
            return
    raise AssertionError("the group does not settle")
