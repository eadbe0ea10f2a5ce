"""The short form, for the gate: all attacks at once and some hostile requests, on one cluster, in seconds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from support.abuse import Seen, Watch, split_address
from support.attacks import ATTACKS, Attack
from support.hostile import Hostile
from support.hostile_clients import send_all
from tailrace.testing import Cluster

MOST_MB = 400
AT_ONCE = 4


def test_all_attacks_at_once(
    cluster: Cluster, watch: Watch, scale: float, seed: int, requests: int, found: list[Seen]
) -> None:
    def answered_bytes(attack: Attack) -> int:
        return attack.run(cluster, scale)

    with watch.over("all attacks at once") as seen, ThreadPoolExecutor(AT_ONCE) as threads:
        sizes = dict(zip(ATTACKS, threads.map(answered_bytes, ATTACKS), strict=True))
        send_all([split_address(cluster.bootstrap.partition(",")[0])], Hostile(seed), seed, requests)
    found.append(seen)
    unfit = [attack.name for attack, size in sizes.items() if not 0 < size <= attack.answer_mb * 1_000_000]
    assert (unfit, seen.died, seen.errors) == ([], [], [])
    # Who is late on a busy machine is no bug; see test_one_client.py.
    assert [line for line in seen.complaints if "level=error" in line or "by a bug" in line] == []
    assert {role: peak for role, peak in seen.peaks_mb.items() if peak > MOST_MB} == {}
