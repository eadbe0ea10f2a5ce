"""Who leads: the ISR, then the eligible leader replicas (KIP-966), others only where the topic allows; ElectLeaders."""

import pytest

from support.moves import elect, move_leader
from support.nodes import Nodes
from support.replicated import PREFERRED, UNCLEAN, create

UNKNOWN_TOPIC_OR_PARTITION, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE = 3, 80, 83
ELECTION_NOT_NEEDED = 84


@pytest.mark.capability("ElectLeaders (KIP-460)")
def test_preferred_leaders_are_elected_when_asked(nodes: Nodes) -> None:
    topic = create(nodes, [1, 0, 2], [3, 0, 2], [0, 1, 2])
    nodes.shut_down(1)
    epoch = topic.wait(lambda s: s.leader == 0 and s.isr == {0, 2}, "leader 0 without 1").leader_epoch
    assert elect(topic, PREFERRED, 0, 2) == {0: PREFERRED_LEADER_NOT_AVAILABLE, 2: ELECTION_NOT_NEEDED}
    assert elect(topic, PREFERRED, 7) == {7: UNKNOWN_TOPIC_OR_PARTITION}
    assert elect(topic, UNCLEAN, 2) == {2: ELECTION_NOT_NEEDED}
    nodes.start_node(1)
    topic.wait_for_isr(0, 1, 2)
    assert topic.state().leader == 0
    assert elect(topic, PREFERRED, 0, 1) == {0: 0, 1: ELECTION_NOT_NEEDED}
    assert topic.wait_for_leader(1).leader_epoch == epoch + 1


@pytest.mark.capability("unclean election only where it is allowed")
def test_a_replica_that_was_not_in_sync_leads_only_where_it_is_allowed_or_asked_for(nodes: Nodes) -> None:
    careful = create(nodes, [0, 1], min_insync_replicas="1")
    careless = create(nodes, [0, 1], min_insync_replicas="1", unclean_leader_election_enable="true")
    for topic in (careful, careless):
        topic.append(b"kept")
    nodes.kill(1)
    for topic in (careful, careless):
        topic.wait_for_isr(0)
        topic.append(b"lost")
    nodes.kill(0)
    state = careful.wait_for_leader(-1)
    assert (state.isr, state.elr) == (set(), {0})
    careless.wait_for_leader(-1)
    nodes.start_node(1)
    state = careless.wait_for_leader(1)
    assert (state.isr, careless.read()) == ({1}, [(0, b"kept")])
    assert careful.state().leader == -1
    assert elect(careful, UNCLEAN, 0) == {0: 0}
    assert careful.wait_for_leader(1).isr == {1}
    assert careful.append(b"new") == 1
    nodes.start_node(0)
    for topic in (careful, careless):
        topic.wait_for_isr(0, 1)
    move_leader(careful, 0)
    assert careful.append(b"newer") == 2
    assert careful.read() == [(0, b"kept"), (1, b"new"), (2, b"newer")]


@pytest.mark.capability("leaders from the eligible leader replicas (KIP-966)")
def test_a_clean_replica_outside_the_isr_leads_when_the_isr_is_gone(nodes: Nodes) -> None:
    topic = create(nodes, [0, 1, 2], min_insync_replicas="2")
    topic.append(b"kept")
    nodes.shut_down(2)
    topic.wait_for_isr(0, 1)
    nodes.shut_down(1)
    assert topic.wait_for_isr(0).elr == {1}
    nodes.shut_down(0)
    state = topic.wait_for_leader(-1)
    assert (state.isr, state.elr) == (set(), {0, 1})
    nodes.start_node(1)
    state = topic.wait_for_leader(1)
    assert (state.isr, state.elr) == ({1}, {0})
