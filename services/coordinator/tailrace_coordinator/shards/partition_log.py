"""One partition of an internal topic at its leader, over the wire: fence, read, append."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.address import Address
from tailrace.net.authentication.secret import Secret
from tailrace.net.client import Client
from tailrace.net.identity import COORDINATOR_CLIENT_ID
from tailrace.records.record import Record, build
from tailrace.state import ShardBatch
from tailrace.wire import codec
from tailrace.wire.apis import ApiKey
from tailrace.wire.hot.produce import encode_internal_produce
from tailrace.wire.messages import FenceShardRequest, FetchRequest

_PRODUCE_VERSION = 13
_FETCH_VERSION = 17
_FETCH_BYTES = 4 << 20
_ANSWER_GRACE_MS = 2_000


@dataclass(frozen=True, slots=True)
class Barrier:
    """Where a new owner's reading begins and ends; nothing an older owner sends comes after offset."""

    offset: int
    log_start_offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class OwnedPartition:
    """What a shard is loaded on. With another owner's epoch it is loaded again, with another leader it goes on."""

    topic_id: UUID
    partition: int
    shard_epoch: int
    leader: int
    leader_epoch: int
    address: Address  # where the leader listens

    def has_same_owner(self, other: OwnedPartition) -> bool:
        """Whether both are of one owning of one partition."""
        return (self.topic_id, self.partition, self.shard_epoch) == (other.topic_id, other.partition, other.shard_epoch)


class ShardLog(Protocol):
    """What a shard needs of its partition; `PartitionLog` over the wire."""

    async def fence(self) -> Barrier:
        """Appends the barrier and waits for its commit."""
        ...

    async def read(self, offset: int) -> bytes:
        """Returns whole batches from offset on, at least one; the first may begin before it."""
        ...

    async def append(self, batch: ShardBatch, base_offset: int, now_ms: int) -> int:
        """Appends one batch and waits for its commit; returns its base offset."""
        ...


class PartitionLog:
    """Raises ApiError for the leader's refusals, Disconnected or TimeoutError where the outcome is unknown."""

    def __init__(self, client: Client, owned: OwnedPartition, coordinator_id: int, timeout_ms: int) -> None:
        self._client = client
        self._owned = owned
        self._coordinator_id = coordinator_id
        self._timeout_ms = timeout_ms

    async def fence(self) -> Barrier:
        """Appends the barrier and waits for its commit."""
        owned = self._owned
        request = FenceShardRequest(
            topic_id=owned.topic_id,
            partition=owned.partition,
            shard_epoch=owned.shard_epoch,
            coordinator_id=self._coordinator_id,
        )
        answer = await self._client.ask(request, timeout_ms=self._timeout_ms)
        _check(answer.error_code)
        return Barrier(answer.barrier_offset, answer.log_start_offset, answer.leader_epoch)

    async def read(self, offset: int) -> bytes:
        """Returns whole batches from offset on, at least one; the first may begin before it."""
        owned = self._owned
        partition = FetchRequest.FetchTopic.FetchPartition(
            partition=owned.partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES
        )
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic_id=owned.topic_id, partitions=[partition])],
        )
        answer = await self._client.ask(request, version=_FETCH_VERSION, timeout_ms=self._timeout_ms)
        _check(answer.error_code)
        found = answer.responses[0].partitions[0]
        _check(found.error_code)
        return bytes(found.records or b"")

    async def append(self, batch: ShardBatch, base_offset: int, now_ms: int) -> int:
        """Appends one batch with acks=all and the shard epoch beside it; returns its base offset.

        The leader refuses it unless the log ends at base_offset: an append that was given up for lost cannot come late.
        """
        owned = self._owned
        rows = (Record(timestamp=now_ms, key=key, value=value) for key, value in batch.records)
        producer_id, producer_epoch = batch.producer or (-1, -1)
        records = build(
            rows,
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transactional=batch.producer is not None,
            control=batch.is_control,
        )
        frame = encode_internal_produce(
            _PRODUCE_VERSION,
            0,
            COORDINATOR_CLIENT_ID,
            owned.topic_id.bytes,
            owned.partition,
            records,
            shard_epoch=owned.shard_epoch,
            timeout_ms=self._timeout_ms,
        )
        raw = await self._client.ask_raw(frame, timeout_ms=self._timeout_ms + _ANSWER_GRACE_MS)
        body = codec.response_body(ApiKey.PRODUCE, _PRODUCE_VERSION, raw)
        answer = codec.decode_response(ApiKey.PRODUCE, _PRODUCE_VERSION, body)
        result = answer.responses[0].partition_responses[0]
        _check(result.error_code)
        return int(result.base_offset)


class LeaderConnections:
    """One connection to each broker that leads partitions, shared by its shards."""

    def __init__(self, coordinator_id: int, timeout_ms: int, secret: Secret | None = None) -> None:
        self._coordinator_id = coordinator_id
        self._timeout_ms = timeout_ms
        self._secret = secret
        self._clients: dict[Address, Client] = {}

    def log(self, owned: OwnedPartition) -> PartitionLog:
        """Returns a partition's log at its leader."""
        client = self._clients.get(owned.address)
        if client is None:
            client = self._clients[owned.address] = Client(owned.address, COORDINATOR_CLIENT_ID, login=self._secret)
        return PartitionLog(client, owned, self._coordinator_id, self._timeout_ms)

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()


def _check(error_code: int) -> None:
    if error_code != ErrorCode.NONE:
        raise ApiError(ErrorCode(error_code))
