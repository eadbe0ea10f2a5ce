"""One controller's part in following the metadata: a long poll on `__cluster_metadata`, again and again (KIP-595).

Every controller serves the log, active or standby, and says who is active. A follower polls all of them: what one
of them knows first is known, and the death of one is nothing that has to be noticed.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, Protocol

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.features import beyond
from tailrace.kafka.topics import CLUSTER_METADATA_TOPIC
from tailrace.metadata.codec import MalformedRecord
from tailrace.metadata.image import MetadataImage
from tailrace.net.address import Address
from tailrace.net.background import in_thread
from tailrace.net.backoff import Backoff
from tailrace.net.client import Client, Disconnected, SaslLogin
from tailrace.net.large import LARGE_BYTES
from tailrace.net.metadata.batches import TOPIC_ID, Snapshot, decode_snapshot, replay
from tailrace.wire.codec import Malformed
from tailrace.wire.messages import FetchRequest, FetchSnapshotRequest

MAX_WAIT_MS = 5_000
ANSWER_TIMEOUT_MS = 10_000
MAX_BYTES = 8 << 20
_NOT_YET = (ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.UNKNOWN_LEADER_EPOCH)


class UnusableAnswer(Exception):
    """This controller's answer cannot be used; another one, or the same one later, may do."""


class Behind(Exception):
    """A standby that does not know yet what we know; it says so itself, or its answer shows it."""


class PollAnswer(NamedTuple):
    """What a poll says: the image with the news in it, and who is active; is_active: the answering one itself."""

    image: MetadataImage
    up_to_date: bool
    leader_id: int
    leader_epoch: int
    is_active: bool


class Followed(Protocol):
    """What a link needs of the follower it works for."""

    image: MetadataImage
    controller_epoch: int

    @property
    def secret(self) -> SaslLogin | None: ...

    async def on_answer(self, link: MetadataLink, answer: PollAnswer) -> None: ...

    def on_failure(self, link: MetadataLink, failure: Exception) -> None: ...

    @property
    def cache_name(self) -> str: ...


class MetadataLink:
    """Polls one controller until cancelled. `fresh` while its last answer named an active controller."""

    def __init__(self, address: Address, client_id: str, follower: Followed, backoff: Backoff) -> None:
        self.address = address
        self.fresh = False
        self.said = ""  # the last complaint about it
        self.backoff = backoff
        self._client_id = client_id
        self._follower = follower
        self._knows = False

    async def run(self) -> None:
        """Polls; a failure closes the connection, and the next one begins with a question that does not wait."""
        client = Client(self.address, self._client_id, login=self._follower.secret)
        try:
            while True:
                try:
                    await self._follower.on_answer(self, await self._fetch(client))
                    self._knows = True
                    self.backoff.reset()
                    continue
                except (
                    Disconnected,
                    TimeoutError,
                    Malformed,
                    MalformedRecord,
                    ApiError,
                    UnusableAnswer,
                    Behind,
                ) as failure:
                    self._knows = False
                    self._follower.on_failure(self, failure)
                await client.close()
                await self.backoff.wait()
        finally:
            await client.close()

    async def _fetch(self, client: Client) -> PollAnswer:
        """One long poll. The first answer of a controller must not wait for news."""
        image = self._follower.image
        partition = FetchRequest.FetchTopic.FetchPartition(
            partition=0,
            current_leader_epoch=self._follower.controller_epoch,
            fetch_offset=image.offset + 1,
            last_fetched_epoch=image.epoch,
            partition_max_bytes=MAX_BYTES,
        )
        request = FetchRequest(
            cluster_id=image.cluster_id or None,
            max_wait_ms=MAX_WAIT_MS if self._knows else 0,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            topics=[FetchRequest.FetchTopic(topic=CLUSTER_METADATA_TOPIC, topic_id=TOPIC_ID, partitions=[partition])],
        )
        answer = await client.ask(request, timeout_ms=ANSWER_TIMEOUT_MS)
        self._check(answer.error_code)
        partition = answer.responses[0].partitions[0]
        is_active = not answer.node_endpoints
        self._leader(partition, is_active=is_active)
        self._check_partition(partition)
        if partition.snapshot_id is not None and partition.snapshot_id.end_offset >= 0:
            image = await self._fetch_snapshot(client, partition.snapshot_id)
        else:
            image = await self._replayed(bytes(partition.records or b""))
        if image.offset <= self._follower.image.offset:
            image = self._follower.image  # another link was faster
        leader_id, leader_epoch = self._leader(partition, is_active=is_active)  # nor has another heard of a newer one
        if why := beyond(image.features):
            raise UnusableAnswer(f"{why}: install the version that the controllers have, or a newer one")
        up_to_date = image.offset + 1 >= partition.high_watermark
        return PollAnswer(image, up_to_date, leader_id, leader_epoch, is_active)

    def _check(self, error_code: int) -> None:
        if error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            raise UnusableAnswer(
                f"{self.address} belongs to another cluster than this image, whose id is "
                f"{self._follower.image.cluster_id}; if that is meant, remove {self._follower.cache_name}"
            )
        if error_code == ErrorCode.NOT_CONTROLLER:  # no log yet, or none that may be followed
            raise Behind(f"{self.address} answered NOT_CONTROLLER")
        if error_code:
            raise UnusableAnswer(f"{self.address} answered {ErrorCode(error_code).name}")

    def _leader(self, partition: Any, *, is_active: bool) -> tuple[int, int]:
        """Id and epoch of the active controller; STALE_CONTROLLER_EPOCH, in a sentence, for a zombie."""
        leader, seen = partition.current_leader, self._follower.controller_epoch
        if leader is None:
            raise UnusableAnswer(f"{self.address} does not say who is active")
        if leader.leader_epoch < seen:
            sentence = f"{self.address} has controller epoch {leader.leader_epoch}, {seen} was seen"
            raise UnusableAnswer(f"STALE_CONTROLLER_EPOCH: {sentence}") if is_active else Behind(sentence)
        return leader.leader_id, leader.leader_epoch

    def _check_partition(self, partition: Any) -> None:
        code, image = partition.error_code, self._follower.image
        if code in _NOT_YET:
            raise Behind(f"{self.address} has metadata up to offset {partition.high_watermark - 1} only")
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise UnusableAnswer(
                f"{self.address} has metadata up to offset {partition.high_watermark - 1}, another history than "
                f"this image of offset {image.offset}, epoch {image.epoch}: its database may be an old one"
            )
        if code:
            raise UnusableAnswer(f"{self.address} answered {ErrorCode(code).name}")

    async def _fetch_snapshot(self, client: Client, snapshot_id: Any) -> MetadataImage:
        asked = FetchSnapshotRequest.TopicSnapshot.PartitionSnapshot
        data = bytearray()
        while True:
            wanted = asked.SnapshotId(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch)
            partition = asked(partition=0, current_leader_epoch=-1, snapshot_id=wanted, position=len(data))
            topic = FetchSnapshotRequest.TopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=[partition])
            answer = await client.ask(FetchSnapshotRequest(topics=[topic]), timeout_ms=ANSWER_TIMEOUT_MS)
            got = answer.topics[0].partitions[0] if not answer.error_code else answer
            if got.error_code:
                raise UnusableAnswer(f"{self.address} answered {ErrorCode(got.error_code).name} to FetchSnapshot")
            data += got.unaligned_records or b""
            if len(data) >= got.size:
                break
        if snapshot_id.end_offset <= self._follower.image.offset + 1:
            return self._follower.image  # another link was faster
        return await in_thread(
            partial(decode_snapshot, Snapshot(snapshot_id.end_offset, snapshot_id.epoch, bytes(data)))
        )

    async def _replayed(self, records: bytes) -> MetadataImage:
        """The image after these batches; many records are decoded in a thread, since an image never changes."""
        work = partial(replay, self._follower.image, records)
        return work() if len(records) < LARGE_BYTES else await in_thread(work)
