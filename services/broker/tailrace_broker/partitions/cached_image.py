"""What a start may believe of the cached image: only what was so when the earlier life was closed cleanly.

A leader that was closed cleanly and goes on with its log, by the image that it had followed, is no other than one that
stood still for a while: what others decided meanwhile keeps them from following it. An older image may give it an epoch
that it had left, and an ISR that it knows to be larger: what it would commit there the present ISR lacks. A disk may be
full or fail where the image is cached, or a backup bring an old one back, so the clean-shutdown marker names the image.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tailrace.metadata.image import MetadataImage
from tailrace_broker.partitions.partition import Partition

UNKNOWN: Final = -1


def closing_offset(image: MetadataImage, partitions: Iterable[Partition]) -> int:
    """The metadata offset for the marker of a clean shutdown, UNKNOWN where no image says how things are.

    Whoever a leader has proposed for the ISR counts for it from then on (KIP-497), and the controller may have taken
    the proposal: without an image that says so the next life would commit what that replica lacks.
    """
    for partition in partitions:
        if partition.leading is not None and not partition.leading.maximal_isr.issubset(partition.isr):
            return UNKNOWN
    return image.offset


def goes_on(image: MetadataImage, node_id: int, closed_epoch: int, closed_offset: int) -> bool:
    """Whether the image knows the very life that was closed cleanly, and all that it knew."""
    mine = image.brokers.get(node_id)
    if mine is None or closed_epoch < 0 or closed_offset < 0:
        return False
    return mine.broker_epoch == closed_epoch and image.offset >= closed_offset
