"""A database that ends below what somebody has seen: refused, and after an operator's word far ahead of all that."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from support.metadata import broker, topic
from tailrace.metadata import records as r
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.replay import replay
from tailrace_controller.election import acceptance
from tailrace_controller.election.acceptance import MARGIN, Seen
from tailrace_controller.metadata_log.lease_row import Lease

LEASE = Lease(holder=0, token="a", epoch=5, renewals=1, next_offset=101)


def test_what_the_database_holds_contradicts_nobody() -> None:
    assert not acceptance.contradicts(LEASE, Seen())
    assert not acceptance.contradicts(LEASE, Seen(100, 5))
    assert acceptance.contradicts(LEASE, Seen(101, 5))
    assert acceptance.contradicts(LEASE, Seen(100, 6))


def test_the_refusal_says_both_ends_and_the_line_to_run() -> None:
    sentence = acceptance.refusal(LEASE, Seen(150, 7))
    for part in ("ends at offset 100 (controller epoch 5)", "offset 150 (epoch 7)", "--seen-offset 150"):
        assert part in sentence


def test_an_acceptance_names_how_much_is_given_up() -> None:
    assert not acceptance.is_accepted(LEASE, Seen(150, 7))
    assert not acceptance.is_accepted(replace(LEASE, accepted_offset=149), Seen(150, 7))
    assert acceptance.is_accepted(replace(LEASE, accepted_offset=150), Seen(150, 7))


@given(st.integers(0, 10_000), st.integers(0, 100), st.integers(-1, 20_000), st.integers(-1, 200))
def test_an_accepted_log_goes_on_beyond_every_offset_and_epoch_that_was_seen(
    next_offset: int, epoch: int, offset: int, seen_epoch: int
) -> None:
    lease, seen = replace(LEASE, next_offset=next_offset, epoch=epoch), Seen(offset, seen_epoch)
    ahead = acceptance.jump(lease, seen)
    assert ahead.base_offset >= max(next_offset, offset + 1) + MARGIN
    assert ahead.epoch >= max(epoch, seen_epoch) + MARGIN
    # no lost record can have raised an epoch, or handed a producer-id block out, that is not jumped over
    assert ahead.lost >= offset + 1 - next_offset
    again = replace(lease, next_offset=ahead.base_offset + 1, epoch=ahead.epoch)
    assert not acceptance.contradicts(again, seen)


def test_every_epoch_and_the_producer_ids_jump_and_everything_else_stays() -> None:
    records = [
        *broker(0, 1),
        *topic("events", 1, [0, 0]),
        r.ShardOwnerRecord("__consumer_offsets", 0, 3, 7),
        r.ProducerIdsRecord(0, 1, 5000),
    ]
    image = replay(MetadataImage(), records, 10, 2)
    after = replay(image, acceptance.records(image, lost=1050), 2000, 9)
    for old, new in zip(image.topics["events"].partitions, after.topics["events"].partitions, strict=True):
        raised = replace(old, leader_epoch=old.leader_epoch + 1050, partition_epoch=old.partition_epoch + 1050)
        assert new == raised
    assert after.shards["__consumer_offsets", 0].shard_epoch == 7 + 1050
    assert after.next_producer_id == 5000 + 1050 * 1000
    assert (after.brokers, after.configs, after.topic_names) == (image.brokers, image.configs, image.topic_names)
