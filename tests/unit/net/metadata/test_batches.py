"""Snapshots of the metadata log: as large as the cluster, and made in pieces."""

from __future__ import annotations

import pytest

from support.metadata import after, cluster, topic
from support.steps import longest_stretch
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.snapshot import to_records
from tailrace.net.metadata.batches import (
    SNAPSHOT_BATCH_RECORDS,
    decode_snapshot,
    encode_snapshot,
    encode_snapshot_in_pieces,
)
from tailrace.net.pieces import in_turns


def holding(partitions: int) -> MetadataImage:
    return after(cluster(2), *topic("wide", 1, [0] * partitions))


ALONE = len(list(to_records(holding(0))))


@pytest.mark.parametrize("count", [ALONE, 199, 200, 201, SNAPSHOT_BATCH_RECORDS, SNAPSHOT_BATCH_RECORDS + 1, 3_200])
def test_a_snapshot_has_every_record_of_its_image(count: int) -> None:
    image = holding(count - ALONE)
    assert len(list(to_records(image))) == count
    assert decode_snapshot(encode_snapshot(image, 5)) == image


async def test_no_piece_is_longer_because_there_are_more_partitions() -> None:
    async def longest(count: int) -> int:
        return await longest_stretch(in_turns(encode_snapshot_in_pieces(holding(count), 5)))

    await longest(10)
    assert await longest(4_000) / await longest(2_000) < 1.1
