"""KIP-98's sequence numbers with several replicas: what a repeated batch and a gap are told, by each leader in turn."""

from __future__ import annotations

import pytest

from support.moves import move_leader
from support.nodes import Nodes
from support.replicated import Replicated, create
from support.waiting import until

NOT_LEADER_OR_FOLLOWER, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH = 6, 45, 47
REMEMBERED = 5


def sent(topic: Replicated, sequence: int, *, epoch: int = 0, producer_id: int = 91) -> tuple[int, int]:
    """(error code, base offset) of a batch of one record."""
    answer = topic.produce(b"v", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return answer.error_code, answer.base_offset


def gap(topic: Replicated, sequence: int, *, epoch: int = 0) -> tuple[int, int]:
    """As sent; Tailrace has it sent once more in the first minute of a leadership (docs/compatibility.md)."""
    answer = sent(topic, sequence, epoch=epoch)
    if answer[0] == NOT_LEADER_OR_FOLLOWER and "tailrace" in type(topic.nodes).__name__.lower():
        answer = sent(topic, sequence, epoch=epoch)
    return answer


def wait_until_it_leads(topic: Replicated, last: int) -> None:
    """A node may name itself the leader a moment before it takes batches: Apache Kafka's metadata go before its log."""
    until(lambda: sent(topic, last)[0] != NOT_LEADER_OR_FOLLOWER, "a leader that takes batches")


def check_remembered(topic: Replicated, last: int) -> None:
    """The last five batches are repeated with their offsets, which are their sequence numbers; older ones refused."""
    for back in range(REMEMBERED):
        assert sent(topic, last - back) == (0, last - back), f"{back} back"
    assert sent(topic, last - REMEMBERED) == (OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert gap(topic, last + 2) == (OUT_OF_ORDER_SEQUENCE_NUMBER, -1)


@pytest.mark.capability("idempotent produce: sequences are checked")
def test_every_leader_knows_the_last_five_batches_of_a_producer(nodes: Nodes) -> None:
    topic = create(nodes, [0, 1, 2], min_insync_replicas="2")
    for sequence in range(7):
        assert sent(topic, sequence) == (0, sequence)
    check_remembered(topic, 6)
    move_leader(topic, 1)
    wait_until_it_leads(topic, 6)
    check_remembered(topic, 6)
    assert sent(topic, 7) == (0, 7)
    move_leader(topic, 2)
    wait_until_it_leads(topic, 7)
    check_remembered(topic, 7)
    nodes.kill(2)
    topic.wait(lambda state: state.leader in (0, 1), "another leader")
    wait_until_it_leads(topic, 7)
    check_remembered(topic, 7)
    assert sent(topic, 8) == (0, 8)


@pytest.mark.capability("idempotent produce: sequences are checked")
def test_a_new_epoch_begins_with_sequence_0_and_an_unknown_producer_anywhere(nodes: Nodes) -> None:
    topic = create(nodes, [0, 1, 2], min_insync_replicas="2")
    assert sent(topic, 0) == (0, 0)
    assert gap(topic, 3, epoch=1) == (OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert sent(topic, 0, epoch=1) == (0, 1)
    assert sent(topic, 1) == (INVALID_PRODUCER_EPOCH, -1)
    assert sent(topic, 5, producer_id=92) == (0, 2)
    assert sent(topic, 5, producer_id=92) == (0, 2)
    assert sent(topic, 2, producer_id=92) == (OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
