"""What a controller sends: many rows are decoded in a thread, and other clients of a role have their turn meanwhile."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from tailrace.clock import ManualClock
from tailrace.metadata import codec
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import ClientQuotaRecord, MetadataRecord, PartitionRecord, QuotaEntity, TopicRecord
from tailrace.metadata.replay import replay
from tailrace.net.address import Address
from tailrace.net.backoff import Backoff
from tailrace.net.metadata.batches import encode_batch, encode_snapshot
from tailrace.net.metadata.link import MetadataLink, PollAnswer
from tailrace.wire.messages import ApiMessage, FetchResponse, FetchSnapshotResponse

MANY = 2_000
TOPIC_ID = UUID(int=9)


def _partitions() -> list[MetadataRecord]:
    rows = [PartitionRecord(number, TOPIC_ID, (0,), (0,), leader=0, leader_epoch=0) for number in range(MANY)]
    return [TopicRecord("wide", TOPIC_ID), *rows]


def _quotas() -> list[MetadataRecord]:
    entities = (QuotaEntity("client-id", f"app-{number}") for number in range(MANY))
    return [ClientQuotaRecord((entity,), "producer_byte_rate", 1.0, remove=False) for entity in entities]


class Follower:
    """The follower's twin: it keeps the first image."""

    controller_epoch = 1
    secret = None
    cache_name = "-"

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.took: asyncio.Future[MetadataImage] = asyncio.get_running_loop().create_future()

    async def on_answer(self, _link: MetadataLink, answer: PollAnswer) -> None:
        self.image = answer.image
        if not self.took.done():
            self.took.set_result(answer.image)

    def on_failure(self, _link: MetadataLink, failure: Exception) -> None:
        self.took.set_exception(failure)


class Controller:
    """A client of one controller, which answers a first poll with all that there is and later ones never."""

    def __init__(self, records: list[MetadataRecord], *, by_snapshot: bool) -> None:
        self._records = records
        self._by_snapshot = by_snapshot
        self._asked = False

    async def ask(self, message: ApiMessage, **_: Any) -> Any:
        if type(message).__name__ == "FetchSnapshotRequest":
            return self._snapshot()
        if self._asked:
            await asyncio.Event().wait()
        self._asked = True
        part = FetchResponse.FetchableTopicResponse.PartitionData
        end = len(self._records)
        values = [codec.encode(record) for record in self._records]
        partition = part(
            partition_index=0,
            error_code=0,
            high_watermark=end,
            records=None if self._by_snapshot else encode_batch(values, 0, 1, 0).data,
            current_leader=part.LeaderIdAndEpoch(leader_id=0, leader_epoch=1),
            snapshot_id=part.SnapshotId(end_offset=end if self._by_snapshot else -1, epoch=1),
            aborted_transactions=None,
        )
        topic = FetchResponse.FetchableTopicResponse(topic="", topic_id=TOPIC_ID, partitions=[partition])
        return FetchResponse(error_code=0, session_id=0, responses=[topic], node_endpoints=[])

    def _snapshot(self) -> Any:
        topic = FetchSnapshotResponse.TopicSnapshot
        image = replay(MetadataImage(), self._records, len(self._records) - 1, 1)
        data = encode_snapshot(image, 0).data
        row = topic.PartitionSnapshot(
            index=0,
            error_code=0,
            snapshot_id=topic.PartitionSnapshot.SnapshotId(end_offset=image.offset + 1, epoch=1),
            size=len(data),
            position=0,
            unaligned_records=data,
        )
        return FetchSnapshotResponse(error_code=0, topics=[topic(name="", partitions=[row])])

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("by_snapshot", [False, True])
@pytest.mark.parametrize("records_of", [_partitions, _quotas])
async def test_many_records_are_decoded_in_a_thread(
    records_of: Callable[[], list[MetadataRecord]], by_snapshot: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = Counter[threading.Thread]()
    decode = codec.decode

    def counted(data: bytes) -> MetadataRecord:
        threads[threading.current_thread()] += 1
        return decode(data)

    records = records_of()
    controller = Controller(records, by_snapshot=by_snapshot)
    monkeypatch.setattr("tailrace.net.metadata.link.Client", lambda *_, **__: controller)
    monkeypatch.setattr(codec, "decode", counted)
    follower, clock = Follower(), ManualClock()
    link = MetadataLink(Address("nowhere", 1), "me", follower, Backoff(clock, random.Random(1), 1, 1))
    following = asyncio.create_task(link.run())
    try:
        image = await follower.took
    finally:
        following.cancel()
    assert image == replay(MetadataImage(), records, len(records) - 1, 1)
    assert threads.total() >= MANY and threading.main_thread() not in threads
