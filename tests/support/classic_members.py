"""Members of the classic protocol as a client plays them, on the group machine alone: eager or cooperative ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from support.consumer_groups import ConsumerDriver, Partitions
from tailrace.errors import ErrorCode
from tailrace.kafka.consumer_protocol import encode_assignment, partitions_of, read_subscription
from tailrace_coordinator.groups.group import Leaver

LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID)


def subscribed(*topics: str, owned: Mapping[str, set[int]] | None = None, version: int = 1) -> bytes:
    """A ConsumerProtocolSubscription as a client writes it."""
    row = ConsumerProtocolSubscription.TopicPartition
    rows = [row(topic=topic, partitions=sorted(some)) for topic, some in (owned or {}).items()]
    written = ConsumerProtocolSubscription(version=version, topics=list(topics), owned_partitions=rows)
    return bytes(written.encode(version=version))


class ClassicMember:
    """A member that does what it is told when it is stepped. `uses`: what it reads, also what it does not own any more.

    An eager one gives all up before it joins; a cooperative one keeps what its assignment leaves it.
    """

    def __init__(
        self,
        driver: ConsumerDriver,
        *topics: str,
        eager: bool = False,
        instance: str | None = None,
        session_ms: int = 10_000,
    ) -> None:
        self.driver = driver
        self.topics = topics or ("t",)
        self.eager = eager
        self.instance = instance
        self.session_ms = session_ms
        self.member_id = ""
        self.generation = -1
        self.owned: Partitions = {}
        self.parked: tuple[str, int] | None = None  # the request that is not answered yet: its kind and token
        self.is_joining = True  # until it has an assignment
        self.loses_next = False  # its next answer does not reach it

    def join(self, **options: Any) -> Any:
        """Asks to join; the answer, None while it is parked."""
        self.is_joining = True
        if self.eager:
            self.owned = {}
        protocols = (("range", subscribed(*self.topics, owned=self.owned)),)
        options = {"session_ms": self.session_ms, "instance": self.instance, "protocols": protocols, **options}
        token = self.driver.join("g", self.member_id, **options)
        answer = self.driver.answers.get(token)
        if answer is not None and answer.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            token = self.driver.join("g", self.member_id, **options)
        self.parked = ("join", token)
        self.driver.advance(0)  # the first join phase of a group
        return self._take()

    def _sync(self, assignments: dict[str, bytes] | None = None) -> Any:
        options = {"instance": self.instance, "protocol_type": "consumer", "protocol_name": "range"}
        self.parked = ("sync", self.driver.sync("g", self.member_id, self.generation, assignments, **options))
        return self._take()

    def _take(self) -> Any:
        """Does what the answer says, if there is one."""
        assert self.parked is not None
        kind, token = self.parked
        answer = self.driver.answers.get(token)
        if self.loses_next:
            self.loses_next, self.parked = False, None
            return None
        if answer is None:
            return None
        self.parked = None
        if answer.error_code in LOST:
            self.lose(answer.error_code)
        if answer.error_code is not ErrorCode.NONE:
            return answer
        if kind == "join":
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self._sync(assignments_of(answer, self.driver) if answer.leader == self.member_id else None)
        else:
            self._own(partitions_of(answer.assignment))
        return answer

    def _own(self, pairs: list[tuple[str, int]]) -> None:
        owned: Partitions = {}
        for topic, partition in pairs:
            owned.setdefault(topic, set()).add(partition)
        gave_up = any(some - owned.get(topic, set()) for topic, some in self.owned.items())
        self.owned, self.is_joining = owned, False
        if gave_up and not self.eager:
            self.join()

    def leave(self) -> Any:
        """Says goodbye."""
        self.owned = {}
        return self.driver.leave("g", Leaver(self.member_id, self.instance))

    def lose(self, code: ErrorCode) -> None:
        """It is out, or behind: it gives up all and joins anew."""
        self.owned, self.generation, self.is_joining = {}, -1, True
        if code is not ErrorCode.ILLEGAL_GENERATION:
            self.member_id = ""

    def step(self) -> ErrorCode | None:
        """Takes an answer that it waited for, else sends a heartbeat and joins if it is told to."""
        if self.parked is not None:
            self._take()
            return None
        if self.is_joining:
            self.join()
            return None
        code = self.driver.heartbeat("g", self.member_id, self.generation, self.instance)
        if code in LOST:
            self.lose(code)
        if code is not ErrorCode.NONE:
            self.join()
        return ErrorCode(code)


def assignments_of(answer: Any, driver: ConsumerDriver) -> dict[str, bytes]:
    """What a cooperative leader hands out: equal shares, without what another member owns yet."""
    said = {member.member_id: read_subscription(bytes(member.metadata)) for member in answer.members}
    owners = {
        (topic, index): member_id
        for member_id, one in said.items()
        if one is not None
        for topic, some in one.owned.items()
        for index in some
    }
    shares: dict[str, list[tuple[str, int]]] = {member_id: [] for member_id in said}
    for topic, count in driver.topics.items():
        able = [name for name, one in said.items() if one is not None and topic in one.topics]
        for index in range(count if able else 0):
            member_id = able[index * len(able) // count]
            if owners.get((topic, index), member_id) == member_id:
                shares[member_id].append((topic, index))
    return {member_id: encode_assignment(pairs, 1) for member_id, pairs in shares.items()}
