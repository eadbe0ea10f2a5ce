"""Through how many rooms of the broker a Produce goes: what a reader must open to follow it (the broker's README)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from types import FrameType
from typing import Any
from uuid import UUID

import pytest

import tailrace_broker
from support.broker import TOPIC_ID, Running, batch, image, running
from tailrace.metadata.image import BrokerImage, PartitionImage, TopicImage
from tailrace.wire.messages import FetchRequest
from tailrace_broker.broker import Broker

BROKER = Path(tailrace_broker.__file__).parent
# A request, or an answer that waited, comes in by these; what runs under them is the way of a Produce.
WAYS_IN = ("handlers/produce.py", "produce/", "waiting/offset_queue.py")


def test_what_app_py_passes_on_as_a_whole_is_small() -> None:
    """Other modules get single objects of it (pyproject.toml, import contracts)."""
    assert len(fields(Broker)) <= 12


def place_of(frame: FrameType) -> str:
    """The module of a frame, as a path inside the broker; "" elsewhere."""
    path = Path(frame.f_code.co_filename)
    return path.relative_to(BROKER).as_posix() if path.is_relative_to(BROKER) else ""


@contextmanager
def traced() -> Iterator[set[str]]:
    """The rooms of the broker that are entered by way of Produce meanwhile; its top level is one, too."""
    rooms: set[str] = set()

    def enter(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and (place := place_of(frame)):
            above: FrameType | None = frame
            while above is not None and not place_of(above).startswith(WAYS_IN):
                above = above.f_back
            if above is not None:
                rooms.add(place.rpartition("/")[0] or "the broker itself")

    sys.setprofile(enter)
    try:
        yield rooms
    finally:
        sys.setprofile(None)


def followed(broker: Running, offset: int) -> FetchRequest:
    """A fetch of node 1, which has a replica of partition 1."""
    request = broker.fetch_request(1, offset, max_wait_ms=5000)
    request.replica_state = FetchRequest.ReplicaState(replica_id=1, replica_epoch=1)
    return request


# They may only become fewer.
@pytest.mark.parametrize(("acks", "most"), [(1, 4), (-1, 5)])
async def test_a_produce_is_followed_through_few_rooms(tmp_path: Path, acks: int, most: int) -> None:
    alone = PartitionImage((0,), (0,), 0, 3, 0)
    shared = PartitionImage((0, 1), (0, 1), 0, 3, 0)
    nodes = {n: BrokerImage(n, 1, UUID(int=n), fenced=False) for n in (0, 1)}
    two = replace(image(), brokers=nodes, topics={"t": TopicImage("t", TOPIC_ID, (alone, shared))})
    async with running(tmp_path, two) as broker:
        await broker.release()  # what is shared, too
        await broker.produce(0, batch(b"warm"))
        partition = broker.broker.topics.by_name[b"t"].partitions[1 if acks == -1 else 0]
        with traced() as rooms:
            answer = asyncio.ensure_future(broker.produce(partition.index, batch(b"a"), acks=acks, timeout_ms=60_000))
            if acks == -1:
                for offset in (0, 1):  # the second says that the follower has what the first brought
                    await broker.service.ask(followed(broker, offset), timeout_ms=60_000, version=17)
            assert (await answer).error_code == 0
    assert "produce" in rooms
    assert len(rooms) <= most, sorted(rooms)
