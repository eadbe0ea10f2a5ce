"""What one client may send at its largest, as a table for tests and bench.

Each attack is what one client does on a cluster that `prepare` has filled; sizes are in proportion to `scale`, where 1
is what the frame limit and the limits of rows allow.
"""

from __future__ import annotations

import http.client
import json
import struct
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from signal import SIGKILL, SIGTERM, Signals
from threading import Event
from typing import Any

from support import abuse
from support.abuse import Client, repeated, rows, text
from support.largest import all_largest
from support.raw import ConnectionClosed
from support.waiting import until
from tailrace.net.client import Disconnected
from tailrace.testing import Cluster, admin

WIDE, COLD, GROUP, LARGE = "wide", "cold", "many", "large"
PARTITIONS, MEMBER_BYTES = 5_000, 900_000
TOPICS = 4_900  # of a partition each, so many records may one decision of the controller have
_CROWDS = count()
_PIPELINES, _PIPELINED = 120, 64  # connections, and requests on each
_ENDS_EACH = 490  # a request of fewer than MANY_ROWS is answered on the event loop
_AT_ONCE = 20  # members of a large group, of which each waits on a connection of its own


@dataclass(frozen=True)
class Attack:
    """`make` makes what `send` then sends, and waits for its answers; answer_mb is the most that all of them may take.

    Making it keeps a client's interpreter busy: whoever measures has it made before.
    """

    name: str
    make: Callable[[float], Any]
    send: Callable[[Cluster, Any], int]
    answer_mb: int = 1

    def run(self, cluster: Cluster, scale: float) -> int:
        return self.send(cluster, self.make(scale))


def prepare(cluster: Cluster, scale: float) -> None:
    """Two topics of very many partitions, of which nobody uses one, and a group of one member that says much."""
    with Client(cluster) as client:
        partitions = int(PARTITIONS * scale)
        for name in (WIDE, COLD):  # one by one: both are too many records for one decision of the controller
            answer = client.answer(abuse.create_topics([name], partitions))
            assert answer.endswith(text(name) + bytes(2) + text(None)), answer
        client.answer(abuse.find_coordinator(LARGE))  # which creates __consumer_offsets
        joined = until(lambda: _joined(client), "a coordinator")
        client.answer(abuse.sync_group(LARGE, joined, [(joined, b"all")]))


def _joined(client: Client) -> str | None:
    """The member id; None while there is no coordinator yet."""
    frame = client.answer(abuse.join_group(LARGE, bytes(MEMBER_BYTES)))
    (error,) = struct.unpack_from(">h", frame, 4)
    return None if error else _last_text(frame[10:]).decode()


def _last_text(fields: bytes) -> bytes:
    """The member's id of JoinGroup v0: after protocol and leader."""
    found, at = b"", 0
    for _ in range(3):
        (size,) = struct.unpack_from(">h", fields, at)
        found, at = fields[at + 2 : at + 2 + size], at + 2 + size
    return found


def _rows(make: Callable[[int], abuse.Body], most: int) -> Callable[[float], abuse.Body]:
    return lambda scale: make(max(1, int(most * scale)))


def _new(count: int) -> list[str]:
    """Names of topics that attacks of the same scale create and delete."""
    return _names(f"new-{count}", count)


def _ask(cluster: Cluster, asked: abuse.Body) -> int:
    with Client(cluster) as client:
        return len(client.answer(asked))


def _waiting_fetch(scale: float) -> abuse.Body:
    """One that waits for more than there is, while the probes append."""
    rows_ = repeated(abuse.fetched(0), int(10_000 * scale))
    return abuse.fetch(rows([text("probed") + rows_]), max_wait_ms=3_000, min_bytes=1 << 30)


def _five_times(cluster: Cluster, asked: abuse.Body) -> int:
    clients = [Client(cluster) for _ in range(5)]
    for client in clients:
        client.begin(asked)
    found = sum(len(client.receive_frame()) for client in clients)
    for client in clients:
        client.close()
    return found


def _pipelined(cluster: Cluster, asked: list[abuse.Body]) -> int:
    """All of it on each of many connections, before any answer is taken."""
    clients = [Client(cluster) for _ in range(_PIPELINES)]

    def send(client: Client) -> None:
        for one in asked:
            client.begin(one)

    with ThreadPoolExecutor(_PIPELINES) as threads:
        sent = [threads.submit(send, client) for client in clients]
        found = sum(len(client.receive_frame()) for client in clients for _ in asked)
        for one in sent:
            one.result()
    for client in clients:
        client.close()
    return found


def _ends(scale: float) -> list[abuse.Body]:
    listed = rows(struct.pack(">iiq", number, -1, -1) for number in range(_ENDS_EACH))
    return [abuse.list_offsets(rows([text(WIDE) + listed]))] * max(1, int(_PIPELINED * scale))


def _commits_of_nulls(scale: float) -> list[abuse.Body]:
    """Each with as much metadata as is legal, of a character that takes six in JSON."""
    count = int(PARTITIONS * scale)
    return [
        abuse.offset_commit("noted", WIDE, range(first, min(first + 500, count)), "\0" * 4_096)
        for first in range(0, count, 500)
    ]


def _one_by_one(cluster: Cluster, asked: list[abuse.Body]) -> int:
    with Client(cluster) as client:
        return sum(len(client.answer(one)) for one in asked)


def _page(address: str, path: str) -> bytes:
    connection = http.client.HTTPConnection(*abuse.split_address(address), timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == HTTPStatus.OK, answer.status
        return answer.read()
    finally:
        connection.close()


def _metrics(role: str) -> Attack:
    def ask(cluster: Cluster, _: None) -> int:
        # Where it is now: one that was killed before has another port.
        running = json.loads((cluster.data_dir / "run" / f"{role}-0.json").read_text(encoding="utf-8"))
        return len(_page(running["addresses"]["http"], "/metrics"))

    return Attack(f"3 /metrics of the {role}", lambda _: None, ask)


def _rest(path: str) -> Attack:
    """A page about all partitions that `prepare` has made."""

    def ask(cluster: Cluster, _: None) -> int:
        address = cluster.admin.removeprefix("http://")
        (found,) = json.loads(_page(address, "/v3/clusters"))["data"]
        return len(_page(address, f"/v3/clusters/{found['cluster_id']}/{path}"))

    return Attack(f"3 REST: {path}", lambda _: None, ask)


def _names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def _one_row_each(row: bytes, count: int) -> bytes:
    return rows(text(name) + rows([row]) for name in _names("nobody", count))


def _large_group(cluster: Cluster, members: int) -> int:
    """All join, then all send SyncGroup: it is decided about all of them when the last one has.

    They come in the course of seconds, because what is of interest is one decision, not very many requests at once.
    """
    group = f"crowd-{next(_CROWDS)}"  # the members of an earlier one would be waited for
    leader, *others = clients = [Client(cluster) for _ in range(members)]

    def begin(asked: Iterable[tuple[Client, abuse.Body]]) -> None:
        for number, (client, body) in enumerate(asked, 1):
            client.begin(body)
            if number % _AT_ONCE == 0:
                Event().wait(0.02)

    def come() -> bool:
        return asking.answer(abuse.describe_groups(rows([text(group)]))).count(b"abuse-") == members

    name = _last_text(leader.answer(abuse.join_group(group, b""))[10:]).decode()
    begin((client, abuse.join_group(group, b"")) for client in others)
    with Client(cluster) as asking:
        until(come, "all members")
    leader.begin(abuse.join_group(group, b"", name))
    joined = [client.receive_frame() for client in clients]
    names = [_last_text(frame[10:]).decode() for frame in joined]
    assert len(joined[0]) > max(map(len, joined[1:])), "another leads, or not all are in one generation"
    begin((client, abuse.sync_group(group, each, (), 2)) for client, each in zip(others, names[1:], strict=True))
    leader.begin(abuse.sync_group(group, name, ((each, b"all") for each in names), 2))
    synced = [client.receive_frame() for client in clients]
    for client in clients:
        client.close()
    return sum(map(len, (*joined, *synced)))


_DELETED, _EPOCH, _ENDS = struct.pack(">iq", 0, 0), struct.pack(">iii", 0, -1, 0), struct.pack(">iiq", 0, -1, -1)
NULLS = Attack("4 OffsetCommit: 5,000 offsets with 4,096 NULs", _commits_of_nulls, _one_by_one)
ATTACKS = (
    Attack(
        "1 Metadata: a wide topic, 20,000 times", _rows(lambda n: abuse.metadata(repeated(text(WIDE), n)), 20_000), _ask
    ),
    Attack(
        "1 Metadata: __consumer_offsets, 20,000 times",
        _rows(lambda n: abuse.metadata(repeated(text("__consumer_offsets"), n)), 20_000),
        _ask,
    ),
    Attack(
        "1 DescribeGroups: a group of 900 KB, 1,500 times",
        _rows(lambda n: abuse.describe_groups(repeated(text(LARGE), n)), 1_500),
        _ask,
    ),
    Attack(
        "1 DescribeGroups: 10,000 empty ids",
        _rows(lambda n: abuse.describe_groups(repeated(text(""), n)), 10_000),
        _ask,
    ),
    Attack(
        "1 DescribeGroups: 10,000 ids of nobody",
        _rows(lambda n: abuse.describe_groups(rows(map(text, _names("g", n)))), 10_000),
        _ask,
        answer_mb=16,
    ),
    Attack(
        "1 OffsetFetch: a partition, 20,000 times",
        _rows(lambda n: abuse.offset_fetch(GROUP, rows([text(WIDE) + repeated(bytes(4), n)])), 20_000),
        _ask,
    ),
    Attack(
        "1 DescribeConfigs: a topic, 20,000 times",
        _rows(lambda n: abuse.describe_configs(repeated(b"\2" + text(WIDE) + b"\xff" * 4, n)), 20_000),
        _ask,
    ),
    Attack(
        "1 ListConfigResources: topics, 10,000 times",
        _rows(lambda n: abuse.list_config_resources(b"\2" * n), 10_000),
        _ask,
    ),
    Attack(
        "1 ListOffsets: a topic, 20,000 times",
        _rows(lambda n: abuse.list_offsets(repeated(text(WIDE) + rows([_ENDS]), n)), 20_000),
        _ask,
    ),
    Attack(
        "1 DeleteRecords: a topic, 10,000 times",
        _rows(lambda n: abuse.delete_records(repeated(text(WIDE) + rows([_DELETED]), n)), 10_000),
        _ask,
    ),
    Attack(
        "2 DeleteRecords: 10,000 topics",
        _rows(lambda n: abuse.delete_records(_one_row_each(_DELETED, n)), 10_000),
        _ask,
        answer_mb=8,
    ),
    Attack(
        "2 OffsetForLeaderEpoch: 10,000 topics",
        _rows(lambda n: abuse.offset_for_leader_epoch(_one_row_each(_EPOCH, n)), 10_000),
        _ask,
        answer_mb=8,
    ),
    Attack("2 Fetch: five that wait, a partition 10,000 times", _waiting_fetch, _five_times, answer_mb=10),
    Attack(
        "2 Fetch: 5,000 partitions that nobody opened yet",
        _rows(lambda n: abuse.fetch(rows([text(COLD) + rows(map(abuse.fetched, range(n)))])), PARTITIONS),
        _ask,
    ),
    Attack(
        "2 OffsetCommit: 20,000 rows",
        _rows(lambda n: abuse.offset_commit(GROUP, WIDE, range(n)), 20_000),
        _ask,
        answer_mb=2,
    ),
    Attack(
        "2 OffsetFetch: 20,000 partitions",
        _rows(lambda n: abuse.offset_fetch(GROUP, rows([text(WIDE) + _numbers(n)])), 20_000),
        _ask,
        answer_mb=16,
    ),
    Attack(
        "2 LeaveGroup: 10,000 rows",
        _rows(lambda n: abuse.leave_group(LARGE, _names("m", n)), 10_000),
        _ask,
        answer_mb=4,
    ),
    Attack(
        "2 SyncGroup: 10,000 rows",
        _rows(lambda n: abuse.sync_group(LARGE, "nobody", ((name, b"") for name in _names("m", n))), 10_000),
        _ask,
    ),
    Attack(
        "2 CreateTopics: 10,000, to be validated",
        _rows(lambda n: abuse.create_topics(_names("t", n), validate_only=True), 10_000),
        _ask,
        answer_mb=16,
    ),
    Attack(
        "2 AlterClientQuotas: 10,000, to be validated",
        _rows(lambda n: abuse.alter_client_quotas(_names("c", n)), 10_000),
        _ask,
        answer_mb=8,
    ),
    Attack("2 ListOffsets: 490 partitions, 64 times on each of 120 connections", _ends, _pipelined, answer_mb=128),
    NULLS,
    Attack(
        "2 JoinGroup, SyncGroup: a group of 5,000 members",
        lambda scale: max(2, int(5_000 * scale)),
        _large_group,
        answer_mb=2,
    ),
    _rest("status"),
    _rest("topics/-/partitions/-/reassignment"),
    _rest("remove-broker-tasks"),
    *map(_metrics, ("broker", *abuse.ROLES)),
)


# All roles take up what is new in the image. The last ones leave the cluster as it was.
CHANGES = (
    Attack("3 CreateTopics: 4,900 topics", _rows(lambda n: abuse.create_topics(_new(n)), TOPICS), _ask),
    Attack(
        "3 CreateTopics: a topic of 5,000 partitions",
        _rows(lambda n: abuse.create_topics([f"new-wide-{n}"], n), PARTITIONS),
        _ask,
    ),
    Attack(
        "3 CreatePartitions: 5,000 more",
        _rows(lambda n: abuse.create_partitions(f"new-wide-{n}", 2 * n), PARTITIONS),
        _ask,
    ),
    Attack("3 DeleteTopics: 4,900 topics", _rows(lambda n: abuse.delete_topics(_new(n)), TOPICS), _ask),
    Attack(
        "3 DeleteTopics: a topic of 10,000 partitions",
        _rows(lambda n: abuse.delete_topics([f"new-wide-{n}"]), PARTITIONS),
        _ask,
    ),
)


def _away(cluster: Cluster, _: None) -> int:
    """It is not heard for a whole session."""
    logged = len(cluster.log_path.read_bytes())
    with cluster.paused("broker"):
        until(lambda: b"event=fenced" in cluster.log_path.read_bytes()[logged:], "it is fenced")
    until(lambda: not _fenced(cluster), "it is back")
    return 1


def _fenced(cluster: Cluster) -> bool:
    """Its port at the gateway is closed then."""
    try:
        return admin.is_fenced(cluster.bootstrap, 0)
    except (Disconnected, ConnectionError):
        return True


def _restarted(cluster: Cluster, number: Signals) -> int:
    """`up` starts it again."""
    mark = cluster.kill("broker", number=number)
    cluster.wait_for("ready", "broker", since=mark, timeout_seconds=120)
    return 1


# Of all partitions that `prepare` has made, in a cluster of one broker: who produces and fetches waits meanwhile.
BROKERS = (
    Attack("4 a broker of 10,000 partitions that is away and comes back", lambda _: None, _away),
    Attack("4 a broker of 10,000 partitions that stops and starts", lambda _: SIGTERM, _restarted),
    Attack("4 a broker of 10,000 partitions that dies and starts", lambda _: SIGKILL, _restarted),
)


def _send(cluster: Cluster, frame: bytes) -> int:
    with Client(cluster, timeout_s=600) as client, suppress(ConnectionClosed, ConnectionError):
        client.send_bytes(frame)
        return len(client.receive_frame())
    return 0


# Of every API, made from its schema.
LARGEST = tuple(Attack(largest.name, largest.frame, _send, answer_mb=64) for largest in all_largest())


def _numbers(count: int) -> bytes:
    return struct.pack(f">i{count}i", count, *range(count))
