"""A snapshot of a large image is made in pieces, and is the same as one that was made at once."""

from __future__ import annotations

from uuid import UUID

from tailrace.metadata.image import MetadataImage, PartitionImage, TopicImage
from tailrace.net.metadata.batches import decode_snapshot, encode_snapshot, encode_snapshot_in_pieces
from tailrace.steps import ROWS_A_STEP


def image_of(partitions: int) -> MetadataImage:
    partition = PartitionImage(
        replicas=(0,),
        isr=(0,),
        leader=0,
        leader_epoch=0,
        partition_epoch=0,
        directories=(UUID(int=9),),
    )
    topic = TopicImage("wide", UUID(int=5), (partition,) * partitions)
    return MetadataImage(
        offset=7, epoch=1, cluster_id="c", topics={"wide": topic}, topic_names={topic.topic_id: topic.name}
    )


def test_others_have_their_turn_while_a_snapshot_is_encoded() -> None:
    image = image_of(5_000)
    steps, count = encode_snapshot_in_pieces(image, 0), 0
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            snapshot = ended.value
            break
        count += 1
    assert count >= 5_000 // ROWS_A_STEP
    assert snapshot == encode_snapshot(image, 0)
    assert decode_snapshot(snapshot) == image


def test_snapshots_of_every_size_are_whole() -> None:
    for partitions in (0, 1, 996, 997, 998, 999, 1_000, 1_001, 2_500):
        image = image_of(partitions)
        assert decode_snapshot(encode_snapshot(image, 0)) == image
