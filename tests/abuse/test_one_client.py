"""One client sends what is legal and large: nobody else is refused, no role dies, none loses what it owns.

Memory is bounded here; how long others wait depends on the machine and is told in the report alone.
"""

from __future__ import annotations

import pytest

from support.abuse import Client, Seen, Watch, describe_groups, rows, text
from support.attacks import ATTACKS, CHANGES, NULLS, Attack
from support.waiting import until
from tailrace.testing import Cluster

# A quiet role has some 50 to 100 MB. Decoded, a row takes up to a kilobyte, of half a million that a request may have.
MOST_MB = 250
MOST_MB_AT_FULL_SCALE = 1_000


def check(seen: Seen, scale: float) -> None:
    assert seen.died == []
    assert seen.errors == []
    assert seen.complaints == []
    most = MOST_MB + scale * (MOST_MB_AT_FULL_SCALE - MOST_MB)
    assert {role: peak for role, peak in seen.peaks_mb.items() if peak > most} == {}


@pytest.mark.parametrize("attack", (*ATTACKS, *CHANGES), ids=lambda attack: attack.name)
def test_others_go_on(cluster: Cluster, watch: Watch, scale: float, found: list[Seen], attack: Attack) -> None:
    with watch.over(attack.name) as seen:
        answer_bytes = attack.run(cluster, scale)
    found.append(seen)
    assert 0 < answer_bytes <= attack.answer_mb * 1_000_000
    check(seen, scale)


def test_a_coordinator_with_long_metadata_comes_back_and_stays(cluster: Cluster, watch: Watch, scale: float) -> None:
    """Its reports are not its heartbeats: what clients wrote does not cost it its shards, also after a restart."""
    NULLS.run(cluster, scale)
    mark = cluster.kill("coordinator")
    cluster.wait_for("ready", "coordinator", since=mark)
    with Client(cluster) as client, watch.over(NULLS.name + ", after a restart") as seen:
        # Group "noted" is there again: state and protocol type, not COORDINATOR_LOAD_IN_PROGRESS.
        until(
            lambda: text("noted") + text("Empty") in client.answer(describe_groups(rows([text("noted")]))), "the group"
        )
    assert seen.died == []
    assert [line for line in seen.complaints if "registering again" in line or "expired" in line] == []
