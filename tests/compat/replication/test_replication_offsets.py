"""What readers see: nothing above the high watermark, end offsets that never go back, reads from followers."""

import threading

import pytest

from support.moves import move_leader
from support.nodes import Nodes
from support.replicated import create
from support.waiting import until

OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER, OFFSET_NOT_AVAILABLE = 1, 6, 78
# Under the minimum the high watermark stands still (KIP-966): it waits for a paused replica also when a slow test has
# seen that replica leave the ISR.
BOTH, ALL = 2, 3


@pytest.mark.capability("readers see only what is replicated")
def test_a_fetch_between_high_watermark_and_log_end_is_an_empty_success(nodes: Nodes) -> None:
    topic = create(nodes, [0, 1], min_insync_replicas=str(BOTH))
    topic.append(b"seen")
    nodes.pause(1)
    for _ in range(3):
        assert topic.produce(b"unseen", acks=1).error_code == 0
    answers = [topic.fetch(offset) for offset in (1, 2, 4, 5)]
    assert [row.error_code for row in answers] == [0, 0, 0, OFFSET_OUT_OF_RANGE]
    assert [row.high_watermark for row in answers[:3]] == [1, 1, 1]
    assert [bytes(row.records or b"") for row in answers] == [b""] * 4
    nodes.resume(1)
    until(lambda: topic.list_offset().offset == 4, "the records are seen")
    assert [value for _, value in topic.read()] == [b"seen", b"unseen", b"unseen", b"unseen"]


@pytest.mark.capability("end offsets never go back (KIP-207)")
def test_a_new_leader_has_no_end_offset_until_its_high_watermark_has_reached_its_epoch(nodes: Nodes) -> None:
    topic = create(nodes, [0, 1, 2], min_insync_replicas=str(ALL))
    topic.append(b"seen")
    until(lambda: topic.fetch(1, node=1).high_watermark == 1, "the follower's high watermark")
    nodes.pause(2)
    assert topic.produce(b"unseen", acks=1).error_code == 0
    until(lambda: topic.fetch(2, node=1).error_code == 0, "the follower has the record")
    epoch = move_leader(topic, 1).leader_epoch
    until(lambda: topic.epoch_end(epoch, node=1).error_code == 0, "node 1 acts as the leader")
    early = topic.list_offset(node=1)
    assert early.error_code == OFFSET_NOT_AVAILABLE
    assert topic.epoch_end(epoch, node=1).end_offset == 2
    nodes.resume(2)
    late = until(lambda: row if (row := topic.list_offset(node=1)).error_code == 0 else None, "an end offset")
    assert late.offset == 2


@pytest.mark.capability("end offsets never go back (KIP-207)")
def test_end_offsets_never_go_back_while_leaders_change(nodes: Nodes) -> None:
    topic = create(nodes, [0, 1, 2])
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            topic.produce(b"x", acks=1)

    writer = threading.Thread(target=write)
    writer.start()
    seen = [0]
    try:
        for leader in (1, 2, 0, 1, 2, 0):
            move_leader(topic, leader)
            for _ in range(20):
                row = topic.list_offset(node=leader)
                seen += [row.offset] if row.error_code == 0 else []
    finally:
        done.set()
        writer.join()
    last = until(lambda: row if (row := topic.list_offset(node=0)).error_code == 0 else None, "an end offset")
    seen.append(last.offset)
    assert seen == sorted(seen)
    assert last.offset > 0


@pytest.mark.capability("follower fetching by rack (KIP-392)")
def test_a_reader_is_sent_to_the_replica_of_its_rack(nodes: Nodes) -> None:
    topic = create(nodes, [0, 1, 2])
    topic.append(b"near")
    here, there = topic.fetch(0, rack="r0"), topic.fetch(0, rack="r1")
    assert (here.preferred_read_replica, len(bytes(here.records)) > 0) == (-1, True)
    assert (there.error_code, there.preferred_read_replica, bytes(there.records or b"")) == (0, 1, b"")
    nowhere = topic.fetch(0, rack="r3")
    assert (nowhere.preferred_read_replica, len(bytes(nowhere.records)) > 0) == (-1, True)
    assert until(lambda: topic.read(node=1) or None, "the follower's high watermark") == [(0, b"near")]
    assert topic.list_offset(node=1).error_code == NOT_LEADER_OR_FOLLOWER


@pytest.mark.capability("follower fetching by rack (KIP-392)")
def test_a_follower_answers_for_what_it_has(nodes: Nodes) -> None:
    topic = create(nodes, [0, 1, 2], min_insync_replicas=str(ALL))
    topic.append(b"one")
    until(lambda: topic.read(node=1) or None, "the follower's high watermark")
    nodes.pause(2)
    assert topic.produce(b"two", acks=1).error_code == 0
    until(lambda: topic.fetch(2, node=1).error_code == 0, "the follower has the record")
    answers = [topic.fetch(offset, node=1, rack="r1") for offset in (0, 1, 2, 3)]
    assert [row.error_code for row in answers] == [0, 0, 0, OFFSET_OUT_OF_RANGE]
    assert [row.high_watermark for row in answers[:3]] == [1, 1, 1]
    assert bytes(answers[1].records or b"") == b""
