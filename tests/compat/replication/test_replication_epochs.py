"""Leader epochs: where they end, who is fenced by them, what a returning leader cuts off (KIP-101, 279, 320, 951)."""

import pytest

from support.moves import move_leader
from support.nodes import Nodes
from support.ports import HOST
from support.replicated import create
from support.waiting import until

NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 6, 74, 75


@pytest.mark.capability("leader epochs (KIP-101, 279, 320)")
def test_every_leader_epoch_has_its_end(nodes: Nodes) -> None:
    topic = create(nodes, [0, 1, 2])
    first = topic.state().leader_epoch
    topic.append(b"a", b"b")
    second = move_leader(topic, 1).leader_epoch
    assert second > first
    topic.append(b"c")
    ends = [topic.epoch_end(epoch, current=second) for epoch in (first, second, second + 5)]
    assert [row.error_code for row in ends] == [0, 0, 0]
    assert [(row.leader_epoch, row.end_offset) for row in ends] == [(first, 2), (second, 3), (-1, -1)]
    assert topic.list_offset(epoch=second).leader_epoch == second


@pytest.mark.capability("leader epochs (KIP-101, 279, 320)")
def test_a_reader_with_another_leader_epoch_is_fenced(nodes: Nodes) -> None:
    topic = create(nodes, [0, 1, 2])
    topic.append(b"a")
    epoch = move_leader(topic, 1).leader_epoch
    until(lambda: topic.list_offset().error_code == 0, "an end offset (KIP-207)")
    wanted = [FENCED_LEADER_EPOCH, 0, UNKNOWN_LEADER_EPOCH]
    assert [topic.fetch(0, current_leader_epoch=epoch + d).error_code for d in (-1, 0, 1)] == wanted
    assert [topic.list_offset(epoch=epoch + d).error_code for d in (-1, 0, 1)] == wanted
    assert [topic.epoch_end(epoch, current=epoch + d).error_code for d in (-1, 0, 1)] == wanted
    # Node 0 names its successor in Metadata before it has stepped down.
    until(lambda: topic.epoch_end(epoch, node=0).error_code == NOT_LEADER_OR_FOLLOWER, "node 0 has stepped down")


@pytest.mark.capability("leader epochs (KIP-101, 279, 320)")
def test_a_returning_leader_cuts_off_what_nobody_else_has(nodes: Nodes) -> None:
    # Under the minimum the high watermark stands still, so a replica that has left the ISR may still lead (KIP-966).
    topic = create(nodes, [0, 1], min_insync_replicas="2")
    topic.append(b"kept")
    old = topic.state().leader_epoch
    nodes.pause(1)
    for n in range(20):
        assert topic.produce(b"%d" % n, acks=1, node=0).error_code == 0
    nodes.kill(0)
    nodes.resume(1)
    topic.wait_for_leader(1)
    end = topic.append(b"new", acks=1)
    assert 1 <= end < 20  # the fetch that was under way when 1 was paused may have brought some
    assert (topic.epoch_end(old).leader_epoch, topic.epoch_end(old).end_offset) == (old, end)
    nodes.start_node(0)
    topic.wait_for_isr(0, 1)
    move_leader(topic, 0)
    assert topic.append(b"newer") == end + 1
    values = [value for _, value in topic.read()]
    assert values == [b"kept", *(b"%d" % n for n in range(end - 1)), b"new", b"newer"]


@pytest.mark.capability("leader epochs (KIP-101, 279, 320)")
def test_a_fetch_behind_records_of_another_epoch_is_told_where_the_logs_part(nodes: Nodes) -> None:
    topic = create(nodes, [0, 1, 2])
    topic.append(b"a", b"b")
    first = topic.state().leader_epoch
    second = move_leader(topic, 1).leader_epoch
    topic.append(b"c")
    for offset, told in ((2, None), (3, (first, 2)), (20, (first, 2))):
        row = topic.fetch(offset, last_fetched_epoch=first, current_leader_epoch=second)
        diverging = row.diverging_epoch
        assert row.error_code == 0
        assert (told is None) == (diverging is None or diverging.end_offset < 0)
        if told is not None:
            assert ((diverging.epoch, diverging.end_offset), bytes(row.records or b"")) == (told, b"")


@pytest.mark.capability("leader hints (KIP-951)")
def test_who_asks_the_wrong_node_is_told_the_leader_and_its_address(nodes: Nodes) -> None:
    topic = create(nodes, [0, 1, 2])
    state = topic.state()
    for node, version in ((1, 10), (3, 12)):
        request = topic.produce_request(b"x", partition=0, acks=-1, timeout_ms=5000)
        answer = nodes.ask(node, request, version)
        row = answer.responses[0].partition_responses[0]
        assert row.error_code == NOT_LEADER_OR_FOLLOWER
        assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (0, state.leader_epoch)
        assert [(e.node_id, e.host, e.port) for e in answer.node_endpoints] == [(0, HOST, nodes.port)]
    answer = nodes.ask(3, topic.fetch_request(0, by_id=True), 16)
    row = answer.responses[0].partitions[0]
    assert row.error_code == NOT_LEADER_OR_FOLLOWER
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (0, state.leader_epoch)
    assert [(e.node_id, e.host, e.port) for e in answer.node_endpoints] == [(0, HOST, nodes.port)]
