"""Half-sent requests at their largest, kept open: others go on, slow ones give way, and the memory is given back."""

from __future__ import annotations

import struct
import urllib.request

import pytest

from support.abuse import Body, Client, Seen, Watch, data, join_group, resident_mb, rows, text
from support.half_sent import JOINS, PRODUCES, HalfSent, half_sent
from support.waiting import HUNG_S, until
from tailrace.net.limits.request_memory import DEFAULT_BYTES
from tailrace.testing import Cluster

# Beside the budget: what each connection may have of its own, and what a role needs for other things.
OWN_BYTES, OTHER_BYTES = 256 << 10, 48 << 20
# Requests of up to a 64th of the budget (4 MiB) pass those that wait; larger ones do not.
USUAL_BYTES, LARGE_BYTES = 900_000, 8 << 20


def pool(cluster: Cluster, role: str, name: str) -> float:
    page = urllib.request.urlopen(f"http://{cluster.addresses(role)['http']}/metrics", timeout=HUNG_S).read().decode()
    (line,) = (line for line in page.splitlines() if line.startswith(f"tailrace_memory_pool_{name}"))
    return float(line.split()[1])


def whole(asked: HalfSent, size_bytes: int) -> Body:
    """A request of the same API, all of which is sent. It may be refused, but not before it is whole."""
    if asked is JOINS:
        return join_group("whole", bytes(size_bytes))
    batch = text(None) + struct.pack(">hi", 1, 30_000)
    return Body(asked.key, asked.version, batch + rows([text("probed") + rows([bytes(4) + data(bytes(size_bytes))])]))


@pytest.mark.parametrize("asked", [JOINS, PRODUCES], ids=lambda asked: asked.role)
def test_half_sent_requests_give_way_to_whole_ones(
    cluster: Cluster, watch: Watch, found: list[Seen], asked: HalfSent
) -> None:
    role = asked.role
    before_mb, gave_way = resident_mb(cluster.process_id(role)), pool(cluster, role, "closed_connections_total")
    with watch.over(f"3 {asked.count} half-sent requests at the {role}") as seen:
        with Client(cluster) as client, half_sent(cluster, asked):
            until(lambda: pool(cluster, role, "queue_size") > 0, "requests wait for memory")
            assert client.answer(whole(asked, USUAL_BYTES)), "its connection was closed"
            until(lambda: pool(cluster, role, "closed_connections_total") > gave_way, "slow ones give way")
        with Client(cluster, timeout_s=HUNG_S) as client, half_sent(cluster, asked):
            until(lambda: pool(cluster, role, "queue_size") > 0, "requests wait for memory")
            assert client.answer(whole(asked, LARGE_BYTES)), "its connection was closed"
        until(lambda: pool(cluster, role, "used") == 0, "nothing is held")
    found.append(seen)
    assert (seen.died, seen.errors, seen.complaints) == ([], [], [])
    most_bytes = DEFAULT_BYTES + asked.count * OWN_BYTES + OTHER_BYTES
    assert seen.peaks_mb[f"{role}-0" if role == "broker" else role] - before_mb < most_bytes >> 20
    assert resident_mb(cluster.process_id(role)) - before_mb < OTHER_BYTES >> 20
