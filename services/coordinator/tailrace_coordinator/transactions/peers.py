"""Connections to other services, one to each, apart from those that carry the shards' own records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.topics import TRANSACTION_STATE_TOPIC
from tailrace.metadata.image import BrokerImage, MetadataImage
from tailrace.net.address import Address
from tailrace.net.authentication.secret import Secret
from tailrace.net.client import Client, Disconnected
from tailrace.net.identity import COORDINATOR_CLIENT_ID
from tailrace.net.members.endpoints import address_of
from tailrace.net.members.shards import coordinators, owner_address, shard_of
from tailrace.wire.codec import Malformed
from tailrace.wire.messages import ApiMessage, InitProducerIdRequest

AWAY = (Disconnected, TimeoutError, Malformed)
_PRODUCER_ID_VERSION = 4
_PRODUCER_ID_TIMEOUT_MS = 5_000


class Peers:
    """Brokers and coordinators, by their address."""

    def __init__(self, image: Callable[[], MetadataImage], boot_id: str, secret: Secret | None = None) -> None:
        self._image = image
        self._boot_id = boot_id
        self._secret = secret
        self._clients: dict[tuple[Address, int], Client] = {}
        self._brokers: dict[int, tuple[BrokerImage, Address | None]] = {}  # a transaction may have 10,000 partitions

    async def ask(
        self, address: Address, request: ApiMessage, *, version: int, timeout_ms: float, lane: int = 0
    ) -> Any:
        """The answer. Raises one of AWAY where there is none. lane: each has a connection, where others do not wait."""
        client = self._clients.get((address, lane))
        if client is None:
            self._forget_those_gone()
            client = self._clients[address, lane] = Client(address, COORDINATOR_CLIENT_ID, login=self._secret)
        return await client.ask(request, version=version, timeout_ms=timeout_ms)

    def broker(self, broker_id: int) -> Address | None:
        """Where the broker listens."""
        broker = self._image().brokers.get(broker_id)
        if broker is None:
            return None
        known = self._brokers.get(broker_id)
        if known is None or known[0] is not broker:
            known = self._brokers[broker_id] = broker, address_of(broker.endpoints, self._boot_id)
        return known[1]

    def leader(self, topic: str, index: int) -> Address | None:
        """Where the partition's leader listens."""
        return self.broker(self._image().leader(topic, index))

    def owner(self, topic: str, index: int) -> Address | None:
        """Where the coordinator listens that owns the shard."""
        return owner_address(self._image(), topic, index, self._boot_id)

    def transaction_coordinator(self, transactional_id: str) -> Address | None:
        """Where the coordinator of the transactional id listens."""
        return self.owner(TRANSACTION_STATE_TOPIC, shard_of(self._image(), TRANSACTION_STATE_TOPIC, transactional_id))

    async def new_producer_id(self) -> int:
        """One that nobody has, of any broker's block. Raises ApiError COORDINATOR_LOAD_IN_PROGRESS (retriable)."""
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=1, producer_id=-1, producer_epoch=-1
        )
        for broker in self._image().live_brokers():
            address = address_of(broker.endpoints, self._boot_id)
            if address is None:
                continue
            try:
                answer = await self.ask(
                    address, request, version=_PRODUCER_ID_VERSION, timeout_ms=_PRODUCER_ID_TIMEOUT_MS
                )
            except AWAY:
                continue
            if answer.error_code == ErrorCode.NONE:
                return int(answer.producer_id)
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no broker gave a producer id")

    def _forget_those_gone(self) -> None:
        """Breaks off what leads to an address that is not in the image any more."""
        image = self._image()
        known = {address_of(broker.endpoints, self._boot_id) for broker in image.brokers.values()}
        known.update(coordinators(image, self._boot_id))
        for key in [key for key in self._clients if key[0] not in known]:
            self._clients.pop(key).abort()

    async def close(self) -> None:
        """Closes all connections."""
        for client in self._clients.values():
            await client.close()
