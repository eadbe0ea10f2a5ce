"""Snapshots of the metadata log: as large as the cluster, and whole again."""

from __future__ import annotations

import pytest

from support.metadata import after, cluster, topic
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.snapshot import to_records
from tailrace.net.metadata.batches import (
    SNAPSHOT_BATCH_RECORDS,
    decode_snapshot,
    encode_snapshot,
)


def holding(partitions: int) -> MetadataImage:
    return after(cluster(2), *topic("wide", 1, [0] * partitions))


ALONE = len(list(to_records(holding(0))))


@pytest.mark.parametrize("count", [ALONE, 199, 200, 201, SNAPSHOT_BATCH_RECORDS, SNAPSHOT_BATCH_RECORDS + 1, 3_200])
def test_a_snapshot_has_every_record_of_its_image(count: int) -> None:
    image = holding(count - ALONE)
    assert len(list(to_records(image))) == count
    assert decode_snapshot(encode_snapshot(image, 5)) == image
