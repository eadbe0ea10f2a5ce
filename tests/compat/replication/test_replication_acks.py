"""What acks=all and acks=1 are told while replicas are missing (KIP-966 holds the high watermark under the minimum)."""

from typing import Any

import pytest

from support.nodes import Nodes
from support.replicated import create
from support.waiting import until

REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS = 7, 19


@pytest.mark.capability("min.insync.replicas")
def test_acks_all_is_refused_before_the_append_and_acks_1_stays_unseen_under_the_minimum(nodes: Nodes) -> None:
    topic = create(nodes, [0, 1, 2], min_insync_replicas="2")
    assert topic.produce(b"seen").error_code == 0
    nodes.kill(1, 2)
    topic.wait_for_isr(0)
    # Kafka's leader tells an ISR in Metadata before it acts by it: what comes in between is taken and waits.
    early: list[int] = []

    def refused() -> Any:
        answer = topic.produce(b"early", timeout_ms=500)
        if answer.error_code == REQUEST_TIMED_OUT:
            early.append(answer.base_offset)
        return answer if answer.error_code == NOT_ENOUGH_REPLICAS else None

    assert until(refused, "acks=all is refused").base_offset == -1
    next_offset = 1 + len(early)
    unseen = topic.produce(b"unseen", acks=1)
    assert (unseen.error_code, unseen.base_offset) == (0, next_offset)  # nothing of what was refused is in the log
    between = topic.fetch(1)
    assert (between.error_code, between.high_watermark, bytes(between.records)) == (0, 1, b"")
    assert topic.list_offset().offset == 1
    assert topic.epoch_end(topic.state().leader_epoch).end_offset == next_offset + 1
    assert topic.read() == [(0, b"seen")]
    nodes.start_node(1)
    topic.wait_for_isr(0, 1)
    assert topic.append(b"allowed") == next_offset + 1
    values = [b"seen", *(b"early" for _ in early), b"unseen", b"allowed"]
    assert topic.read() == list(enumerate(values))


@pytest.mark.capability("min.insync.replicas")
def test_what_was_appended_before_the_replicas_went_times_out_and_is_seen_when_they_are_back(nodes: Nodes) -> None:
    """NOT_ENOUGH_REPLICAS_AFTER_APPEND would need a high watermark that moves under the minimum: it stands still."""
    topic = create(nodes, [0, 1, 2], min_insync_replicas="2")
    topic.append(b"before")
    nodes.pause(1, 2)
    with topic.producing(b"late", timeout_ms=4000) as pending:
        topic.wait_for_isr(0)
        assert topic.list_offset().offset == 1
        assert pending.answer().error_code == REQUEST_TIMED_OUT
    nodes.resume(1, 2)
    topic.wait_for_isr(0, 1, 2)
    assert until(lambda: topic.list_offset().offset == 2, "the record is seen")
    assert topic.read() == [(0, b"before"), (1, b"late")]


@pytest.mark.capability("acks=all waits for the in-sync replicas")
def test_acks_all_waits_for_a_follower_until_it_has_left_the_isr(nodes: Nodes) -> None:
    topic = create(nodes, [0, 1, 2], min_insync_replicas="2")
    topic.append(b"before")
    epoch = topic.state().leader_epoch
    nodes.pause(2)
    with topic.producing(b"waits", node=0) as pending:  # nothing else is asked before the follower has left the ISR
        assert topic.list_offset(node=0).offset == 1
        answer = pending.answer()
    assert (answer.error_code, answer.base_offset) == (0, 1)
    assert topic.wait_for_isr(0, 1).leader_epoch == epoch  # a shrinking ISR does not change the leader's epoch
    nodes.resume(2)
    assert topic.wait_for_isr(0, 1, 2).leader_epoch == epoch


@pytest.mark.capability("acks=all waits for the in-sync replicas")
def test_acks_all_gives_up_at_its_timeout_and_the_record_stays(nodes: Nodes) -> None:
    topic = create(nodes, [0, 1], min_insync_replicas="1")
    nodes.pause(1)
    assert topic.produce(b"late", timeout_ms=300, node=0).error_code == REQUEST_TIMED_OUT
    nodes.resume(1)
    topic.wait_for_isr(0, 1)
    assert topic.append(b"next") == 1
    assert topic.read() == [(0, b"late"), (1, b"next")]
