"""The textbook's scenario step by step: which partitions have a leader, take acks=1 and acks=all, show what they took.

docs/replication.md tells it with pictures made of what this test observed (--write-story).
"""

from __future__ import annotations

import pytest

from support.nodes import Nodes
from support.story import MINIMA, Seen, Step, tell
from support.story_file import keep

# Each step's partitions 0 to 3, and 4 to 7 and 8 to 11 alike: leader:ISR, and behind a slash the eligible leader
# replicas (KIP-966), which make up for an ISR under the minimum. Partition p lives on p, p+1, p+2 of four nodes.
EXPECTED = {
    2: (
        "0:012     1:123     2:023     3:013",  # all four are alive
        "0:012     1:12      2:02      0:01",  # 3 dies
        "0:01      1:1/2     0:0/2     0:01",  # 2 dies
        "1:1/0     1:1/2     -:/02     1:1/0",  # 0 dies: nobody is left of partition 2
        "1:1/0     1:13      -:/02     1:13",  # 3 is back; it had left partition 2's ISR first
        "1:12      1:123     -:/0      1:13",  # 2 is back, without a clean shutdown: not eligible any more
        "1:012     1:123     0:023     1:013",  # 0 is back: it was the last in sync
    ),
    3: (
        "0:012     1:123     2:023     3:013",
        "0:012     1:12/3    2:02/3    0:01/3",
        "0:01/2    1:1/23    0:0/23    0:01/3",
        "1:1/02    1:1/23    -:/023    1:1/03",
        "1:1/02    1:13/2    -:/02     1:13/0",
        "1:12/0    1:123     -:/0      1:13/0",
        "1:012     1:123     0:023     1:013",
    ),
}


def shown(seen: Seen) -> str:
    """As EXPECTED writes it."""
    leader, isr, elr = str(seen.leader).replace("-1", "-"), "".join(map(str, seen.isr)), "".join(map(str, seen.elr))
    return f"{leader}:{isr}/{elr}".removesuffix("/")


def check_answers(step: Step, minimum: int) -> None:
    """What producers and readers are told follows from leader and ISR alone, at every step."""
    for partition, seen in enumerate(step.topics[minimum]):
        where = f"{step.title}: partition {partition} with min.insync.replicas={minimum}: {seen}"
        enough = len(seen.isr) >= minimum
        if seen.leader == -1:
            assert (seen.acks_1, seen.acks_all, seen.visible) == ("no leader", "no leader", False), where
        else:
            assert (seen.acks_1, seen.acks_all) == ("yes", "yes" if enough else "refused"), where
            assert seen.visible == enough, where


@pytest.mark.capability("the textbook's scenario of replication")
@pytest.mark.timeout(600)
def test_four_nodes_die_one_by_one_and_the_last_in_sync_member_comes_back_last(
    nodes: Nodes, request: pytest.FixtureRequest
) -> None:
    story = tell(nodes)
    if request.config.getoption("--write-story"):
        keep("kafka" if nodes.is_kafka else "tailrace", story.steps)
    for minimum in MINIMA:
        for step, expected in zip(story.steps, EXPECTED[minimum], strict=True):
            assert [shown(seen) for seen in step.topics[minimum]] == expected.split() * 3, step.title
            check_answers(step, minimum)
    assert story.steps[1].waited == "yes"  # acks=all waited until the dead node had left the ISR
    assert all(acknowledged == found > 0 for acknowledged, found in story.kept.values()), story.kept
