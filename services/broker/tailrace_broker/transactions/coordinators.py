"""The transaction coordinators as a broker reaches them: owners of the shards of `__transaction_state` and others.

Questions for one coordinator are gathered while a request is on its way to it, as in Kafka. There are a few ways to
each coordinator, as it answers one request at a time on a connection: a transaction that waits for its shard's replicas
does not stop the others. A transactional id is on its way once at a time, or its coordinator would answer the second
question CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tailrace.errors import ErrorCode
from tailrace.kafka.ids import TopicPartition
from tailrace.kafka.topics import TRANSACTION_STATE_TOPIC
from tailrace.net.address import Address
from tailrace.net.authentication.secret import Secret
from tailrace.net.background import spawn
from tailrace.net.client import Client, Disconnected
from tailrace.net.members.shards import coordinators, owner_address, shard_of
from tailrace.net.metadata.follower import MetadataFollower
from tailrace.wire.apis import ApiKey
from tailrace.wire.limits import ceiling
from tailrace.wire.malformed import Malformed
from tailrace.wire.messages import ApiMessage
from tailrace_broker.transactions import add_partitions
from tailrace_broker.transactions.add_partitions import Answers, Asked

_WAYS: Final = 4  # connections to one coordinator
_MOST_AT_ONCE: Final = 500  # questions of one request
_MOST_PARTITIONS: Final = ceiling(ApiKey.ADD_PARTITIONS_TO_TXN, "transactions.topics.partitions").most  # of one request


class Question(NamedTuple):
    """done is called once, with an error code for each partition; one that is missing there was not refused."""

    asked: Asked
    partitions: tuple[TopicPartition, ...]
    done: Callable[[Answers], None]

    def refuse(self, code: int) -> None:
        """The same answer for all partitions."""
        self.done(dict.fromkeys(self.partitions, int(code)))


class Coordinators:
    """Of one broker."""

    def __init__(self, follower: MetadataFollower, boot_id: str, secret: Secret | None, timeout_ms: int) -> None:
        self._follower = follower
        self._boot_id = boot_id
        self._secret = secret
        self._timeout_ms = timeout_ms
        self._by_address: dict[Address, _Coordinator] = {}

    def ask(self, question: Question) -> None:
        """Sends it with the next request to the id's coordinator; COORDINATOR_NOT_AVAILABLE at once without one."""
        shard = shard_of(self._follower.image, TRANSACTION_STATE_TOPIC, question.asked.transactional_id)
        address = self.owner(TRANSACTION_STATE_TOPIC, shard)
        if address is None:
            question.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            self._coordinator(address).ask(question)

    async def forward(self, address: Address, message: ApiMessage) -> Any:
        """One request to the owner of a shard; raises Disconnected, TimeoutError or Malformed."""
        return await self._coordinator(address).send(message)

    def owner(self, topic: str, shard: int) -> Address | None:
        """Where the owner of an internal topic's shard listens."""
        return owner_address(self._follower.image, topic, shard, self._boot_id)

    def owners(self) -> list[Address]:
        """The owners of all shards of `__transaction_state`; raises Disconnected where a shard has none."""
        topic = self._follower.image.topic(TRANSACTION_STATE_TOPIC)
        shards = range(len(topic.partitions) if topic is not None else 0)
        found = {self.owner(TRANSACTION_STATE_TOPIC, shard) for shard in shards}
        if None in found:
            raise Disconnected("a shard has no owner")
        return sorted(address for address in found if address is not None)

    async def close(self) -> None:
        """Ends what is on its way."""
        for coordinator in self._by_address.values():
            await coordinator.close()

    def _coordinator(self, address: Address) -> _Coordinator:
        found = self._by_address.get(address)
        if found is None:
            self._forget_idle()
            ways = [Client(address, "broker", login=self._secret) for _ in range(_WAYS + 1)]
            found = self._by_address[address] = _Coordinator(ways, self._timeout_ms)
        return found

    def _forget_idle(self) -> None:
        """Those that are not in the image any more and owe nothing."""
        known = set(coordinators(self._follower.image, self._boot_id))
        for address in [one for one, c in self._by_address.items() if one not in known and c.is_idle]:
            self._by_address.pop(address).abort()


class _Coordinator:
    """Questions and requests for one coordinator."""

    def __init__(self, ways: list[Client], timeout_ms: int) -> None:
        self._ways = ways
        self._free = ways[1:]
        self._timeout_ms = timeout_ms
        self._waiting: deque[Question] = deque()
        self._ids_asked: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_idle(self) -> bool:
        return not self._tasks

    def ask(self, question: Question) -> None:
        """Begins a request for it, or leaves it to the one that is begun next."""
        self._waiting.append(question)
        if self._free and question.asked.transactional_id not in self._ids_asked:
            spawn(self._send_waiting(self._free.pop()), self._tasks)

    async def send(self, message: ApiMessage) -> Any:
        """A request of another kind, over a way of its own."""
        return await self._ways[0].ask(message, timeout_ms=self._timeout_ms)

    async def _send_waiting(self, way: Client) -> None:
        """One request after another while there are questions that may be asked."""
        try:
            while batch := self._taken():
                ids = {one.asked.transactional_id for one in batch}
                self._ids_asked |= ids
                try:
                    await self._ask(way, batch)
                finally:
                    self._ids_asked -= ids
        finally:
            self._free.append(way)

    def _taken(self) -> list[Question]:
        """The next questions: for each transactional id those of one producer and epoch."""
        taken: list[Question] = []
        by_id: dict[str, Asked] = {}
        left: deque[Question] = deque()
        left_partitions = _MOST_PARTITIONS
        while self._waiting and len(taken) < _MOST_AT_ONCE and len(self._waiting[0].partitions) <= left_partitions:
            question = self._waiting.popleft()
            asked = question.asked
            free = asked.transactional_id not in self._ids_asked
            if free and by_id.setdefault(asked.transactional_id, asked) == asked:
                taken.append(question)
                left_partitions -= len(question.partitions)
            else:
                left.append(question)
        self._waiting.extendleft(reversed(left))
        return taken

    async def _ask(self, way: Client, batch: list[Question]) -> None:
        """Sends one request and hands its answers out."""
        asked: dict[Asked, dict[TopicPartition, None]] = {}
        for question in batch:
            asked.setdefault(question.asked, {}).update(dict.fromkeys(question.partitions))
        try:
            response = await way.ask(add_partitions.request(asked), timeout_ms=self._timeout_ms)
        except (Disconnected, Malformed):
            _refuse(batch, ErrorCode.NETWORK_EXCEPTION)
        except TimeoutError:
            way.abort()  # it answers in order: what waits behind this would wait as long
            _refuse(batch, ErrorCode.NETWORK_EXCEPTION)
        except BaseException:
            _refuse(batch, ErrorCode.NETWORK_EXCEPTION)
            raise
        else:
            if response.error_code:
                _refuse(batch, add_partitions.refused_whole(response.error_code))
                return
            found = add_partitions.answers(response)
            for question in batch:
                answers = found.get(question.asked.transactional_id)
                if answers is None:
                    question.refuse(ErrorCode.NETWORK_EXCEPTION)
                else:
                    # Silence about a partition is no consent.
                    question.done({p: answers.get(p, ErrorCode.NETWORK_EXCEPTION) for p in question.partitions})

    def abort(self) -> None:
        """Breaks every connection off."""
        for way in self._ways:
            way.abort()

    async def close(self) -> None:
        """Cancels what is on its way; nothing is asked any more."""
        waiting, self._waiting = self._waiting, deque()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        _refuse(list(waiting), ErrorCode.NETWORK_EXCEPTION)
        for way in self._ways:
            await way.close()


def _refuse(batch: list[Question], code: int) -> None:
    for question in batch:
        question.refuse(code)
