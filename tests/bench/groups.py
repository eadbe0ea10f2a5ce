"""`PYTHONPATH=tests python -m bench.groups`: many groups on one coordinator, and one large one, beside Apache Kafka.

Members are played by bare requests. A large group is rebalanced without pauses: each member sends its next request when
it has the answer to the one before. It reports only.
"""

from __future__ import annotations

import asyncio
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from bench import machine, servers, startup
from bench.quiet import process_seconds
from bench.report import say
from bench.section import Section
from support import kafka_peer
from support.group_beats import (
    AWAY,
    JOIN_GROUP,
    SYNC_GROUP,
    Beats,
    Member,
    beat,
    join,
    join_classic,
    make_topic,
    member,
)
from support.groups import subscription
from support.raw import build
from support.targets import pss_bytes
from tailrace.coordination import group_records
from tailrace.coordination.group_records import OffsetCommitted
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.net.garbage_collection import SURVIVORS
from tailrace.records.record import Record
from tailrace.records.record import build as build_batch
from tailrace.state import ShardBatch
from tailrace.testing import Cluster
from tailrace_coordinator.groups.config import GroupConfig
from tailrace_coordinator.groups.machine import GroupMachine
from tailrace_coordinator.kinds import KINDS
from tailrace_coordinator.shards.loader import CoordinatorLoader
from tailrace_coordinator.shards.partition_log import Barrier

SECTION = Section("groups", "bench.groups")
OFFSET_COMMIT, LIST_GROUPS, CREATE_TOPICS = 8, 16, 19
LANES: Final = 8
AT_ONCE: Final = 100  # requests of a connection that are not answered yet
SESSION_MS: Final = 1_800_000
# All members of the large group join in one phase, which takes as long at least. On a busy machine 10,000 members join
# for longer than a session of the consumer protocol is by default.
_SESSIONS: Final = ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms")
SETTINGS: Final = {
    **servers.SETTINGS,
    "group.initial.rebalance.delay.ms": "3000",
    **dict.fromkeys(_SESSIONS, str(SESSION_MS)),
}
HEARTBEATS: Final = 10_000  # of a round
TOPIC: Final = "large"
BATCH: Final = 5_000  # records of a batch of the shard that is loaded


@dataclass
class Server:
    """A started server, and the processes that count: of Tailrace the coordinator by itself, too."""

    name: str
    bootstrap: str
    pids: Sequence[int]
    coordinator: int
    figures: dict[str, str] = field(default_factory=dict)

    def seconds(self) -> tuple[float, float]:
        """CPU seconds of the coordinator, and of all processes."""
        return process_seconds(self.coordinator), sum(map(process_seconds, self.pids))


class Lanes:
    """Some connections, each asked in its order."""

    def __init__(self, bootstrap: str, count: int = LANES) -> None:
        self.raws = [startup.connect(bootstrap) for _ in range(count)]

    def close(self) -> None:
        for raw in self.raws:
            raw.close()

    def ask(self, requests: Sequence[Any], version: int) -> list[Any]:
        """All of them, pipelined; the answers in the order of the requests."""
        answers: list[Any] = []
        most = AT_ONCE * len(self.raws)
        for first in range(0, len(requests), most):
            piece = requests[first : first + most]
            sent = [self.raws[at % len(self.raws)].send(request, version) for at, request in enumerate(piece)]
            answers += [
                self.raws[at % len(self.raws)].receive(type(request).API_KEY, version, sent[at])
                for at, request in enumerate(piece)
            ]
        return answers


@contextmanager
def timed(server: Server, name: str) -> Iterator[None]:
    """Notes seconds of the clock, and of the processors of all processes."""
    began, (_, before) = time.monotonic(), server.seconds()
    yield
    seconds, cpu = time.monotonic() - began, server.seconds()[1] - before
    server.figures[name] = f"{seconds:.2f} s, {cpu:.2f} s CPU"
    say(f"  {server.name}: {name}: {server.figures[name]}")


def heartbeats(server: Server, options: Namespace) -> None:
    """What one heartbeat of either protocol costs, and what its members take of memory."""
    before = pss_bytes(server.coordinator)
    old = classic_members(server, options.groups)
    groups = [f"group-{number:05}" for number in range(options.groups)]
    lanes = Lanes(server.bootstrap)
    each = options.members // options.groups
    wanted = [(group, f"{group}-{number}") for number in range(each) for group in groups]
    epochs = settled(lanes, wanted, entered(lanes, wanted))
    lanes.close()
    new = [member(group, name, epoch) for (group, name), epoch in zip(wanted, epochs, strict=True)]
    server.figures[f"memory of one member of {len(new):,} (coordinator)"] = (
        f"{(pss_bytes(server.coordinator) - before) / len(new) / 1000:.1f} kB"
    )
    for name, members in (("consumer", new), ("classic", old)):
        with Beats(server.bootstrap) as beats:
            sweep(beats, members)
            rounds = [cost(server, beats, members) for _ in range(3)]
        alone, together = min(row[0] for row in rounds), min(row[1] for row in rounds)
        server.figures[f"heartbeat, {name}: CPU of all processes"] = f"{together:.0f} µs"
        server.figures[f"heartbeat, {name}: of the coordinator"] = f"{alone:.0f} µs"
        say(f"  {server.name}: heartbeat {name}: {together:.0f} µs, {alone:.0f} µs of the coordinator")


def classic_members(server: Server, count: int) -> list[Member]:
    """The members of so many groups; each waits for the first join phase of its group, many of them side by side."""

    def entered(number: int) -> Member:
        with closing(startup.connect(server.bootstrap)) as raw:
            return join_classic(raw, f"classic-{number:05}", "no-such-topic")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(entered, range(count)))


def cost(server: Server, beats: Beats, members: Sequence[Member]) -> tuple[float, float]:
    """CPU µs of one heartbeat: of the coordinator, and of all processes."""
    sweeps = max(1, HEARTBEATS // len(members))
    before = server.seconds()
    for _ in range(sweeps):
        sweep(beats, members)
    alone, together = (
        (now - was) / (sweeps * len(members)) * 1e6 for now, was in zip(server.seconds(), before, strict=True)
    )
    return alone, together


def sweep(beats: Beats, members: Sequence[Member]) -> None:
    """One heartbeat of each."""
    for first in range(0, len(members), LANES * AT_ONCE):
        codes = beats.codes(members[first : first + LANES * AT_ONCE])
        assert not any(codes), set(codes)


def entered(lanes: Lanes, wanted: Sequence[tuple[str, str]]) -> list[int]:
    """The first epochs of members that join; one that the coordinator has no room for yet asks again."""
    said = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["no-such-topic"], "topic_partitions": []}
    epochs: dict[tuple[str, str], int] = {}
    while left := [each for each in wanted if each not in epochs]:
        answers = lanes.ask([beat(group, name, 0, **said) for group, name in left], 1)
        assert {answer.error_code for answer in answers} <= {0, *AWAY}
        epochs |= {
            each: answer.member_epoch for each, answer in zip(left, answers, strict=True) if not answer.error_code
        }
    return [epochs[each] for each in wanted]


def settled(lanes: Lanes, wanted: Sequence[tuple[str, str]], epochs: list[int]) -> list[int]:
    """The epochs of members without partitions when all have that of their group."""
    while True:
        requests = [beat(group, name, epoch) for (group, name), epoch in zip(wanted, epochs, strict=True)]
        answers = lanes.ask(requests, 1)
        assert not any(answer.error_code for answer in answers)
        after = [answer.member_epoch for answer in answers]
        if after == epochs:
            return epochs
        epochs = after


@dataclass
class Part:
    """One member of the large group by the consumer protocol."""

    name: str
    epoch: int = 0
    owned: Any = None

    def request(self) -> Any:
        rows = [{"topic_id": row.topic_id, "partitions": list(row.partitions)} for row in self.owned or ()]
        said: dict[str, Any] = {"topic_partitions": rows}
        if self.epoch == 0:
            said |= {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [TOPIC]}
        return beat("large", self.name, self.epoch, **said)

    def take(self, answer: Any) -> None:
        assert not answer.error_code, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = answer.assignment.topic_partitions

    def count(self) -> int:
        return sum(len(row.partitions) for row in self.owned or ())


def large_consumer_group(server: Server, options: Namespace) -> None:
    """A group of the consumer protocol is filled, and one more member joins."""
    lanes = Lanes(server.bootstrap)
    parts = [Part(f"member-{number:05}") for number in range(options.large)]

    def go_on(some: Sequence[Part]) -> None:
        for part, answer in zip(some, lanes.ask([part.request() for part in some], 1), strict=True):
            part.take(answer)

    def is_stable() -> bool:
        return len({part.epoch for part in parts}) == 1 and sum(part.count() for part in parts) == options.partitions

    with timed(server, f"{options.large:,} members join, consumer"):
        go_on(parts)
        while not is_stable():
            go_on(parts)
    parts.append(Part("one-more"))
    with timed(server, "one more joins, consumer"):
        while parts[-1].epoch == 0 or not is_stable():
            go_on(parts)
    lanes.close()


def large_classic_group(server: Server, options: Namespace) -> None:
    """The same by the classic protocol, where each member waits on a connection of its own."""
    lanes = Lanes(server.bootstrap, options.large + 1)
    asked = {"group_id": "old", "session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": SESSION_MS}
    asked |= {"group_instance_id": None, "protocol_type": "consumer", "reason": None}
    asked["protocols"] = [{"name": "range", "metadata": subscription(TOPIC)}]
    named = {"group_id": "old", "group_instance_id": None, "protocol_type": "consumer", "protocol_name": "range"}

    def join_all(ids: Sequence[str]) -> list[Any]:
        """One join phase, and the assignment of its leader."""
        answers = lanes.ask([build(JOIN_GROUP, member_id=name, **asked) for name in ids], 9)
        assert {answer.error_code for answer in answers} == {0}
        share = bytes(100)  # some 20 partitions: the record of a group has room for 1 MB
        rows = [{"member_id": name, "assignment": share} for name in ids]
        syncs = [
            build(
                SYNC_GROUP,
                generation_id=answer.generation_id,
                member_id=answer.member_id,
                assignments=rows if answer.leader == answer.member_id else [],
                **named,
            )
            for answer in answers
        ]
        assert {answer.error_code for answer in lanes.ask(syncs, 5)} == {0}
        return answers

    def new_ids(count: int) -> list[str]:
        return [answer.member_id for answer in lanes.ask([build(JOIN_GROUP, member_id="", **asked)] * count, 9)]

    ids = new_ids(options.large)
    with timed(server, f"{options.large:,} members join, classic"):
        join_all(ids)
    ids += new_ids(1)
    with timed(server, "one more joins, classic"):
        ids.insert(0, ids.pop())  # it asks first: the others are told to join again
        join_all(ids)
    lanes.close()


def listed(server: Server, options: Namespace) -> None:
    """Groups that only have an offset, as tools make them."""
    lanes = Lanes(server.bootstrap, 100)
    row = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
    topics = [{"name": TOPIC, "partitions": [row]}]
    before = pss_bytes(server.coordinator)
    requests = [
        build(
            OFFSET_COMMIT, group_id=f"listed-{number:06}", generation_id_or_member_epoch=-1, member_id="", topics=topics
        )
        for number in range(options.listed)
    ]
    with timed(server, f"{options.listed:,} groups are made, each by a commit"):
        lanes.ask(requests, 9)
    server.figures[f"memory of one of {options.listed:,} groups (coordinator)"] = (
        f"{(pss_bytes(server.coordinator) - before) / options.listed / 1000:.2f} kB"
    )
    with timed(server, f"{options.listed:,} groups are listed"):
        answer = lanes.raws[0].ask(build(LIST_GROUPS, states_filter=[], types_filter=[]), 5)
    assert len(answer.groups) >= options.listed, len(answer.groups)
    lanes.close()


class WrittenLog:
    """A partition of offsets, with batches that are made before they are read."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._batches = {offset: self._batch(offset) for offset in range(0, count, BATCH)}

    def _batch(self, offset: int) -> bytes:
        encode = group_records.encode
        numbers = range(offset, min(self.count, offset + BATCH))
        rows = (OffsetCommitted(f"g{at % 1_000}", f"topic-{at // 100_000}", at // 1_000 % 100, at) for at in numbers)
        records = [Record(at, 1, *encode(row)) for at, row in enumerate(rows)]
        return bytes(build_batch(records, base_offset=offset))

    async def fence(self) -> Barrier:
        return Barrier(self.count - 1, 0, 0)

    async def read(self, offset: int) -> bytes:
        return self._batches[offset]

    async def append(self, batch: ShardBatch, base_offset: int, now_ms: int) -> int:
        raise NotImplementedError


async def loading(count: int) -> tuple[float, float]:
    """Seconds to load a shard of so many offsets, and the longest time in ms that the event loop was held meanwhile."""
    log = WrittenLog(count)
    shard_kind = KINDS[GROUP_METADATA_TOPIC]
    machine = GroupMachine(GroupConfig())
    loader = CoordinatorLoader(log, shard_kind, machine, lambda offset, bad: None, asyncio.Lock())
    SURVIVORS.begin()  # as each service does
    task = asyncio.ensure_future(loader.load())
    began = last = time.thread_time()
    longest = 0.0
    while not task.done():
        await asyncio.sleep(0)
        longest, last = max(longest, time.thread_time() - last), time.thread_time()
    assert len(machine.offsets) == count
    return time.thread_time() - began, longest * 1000


def measure(server: Server, options: Namespace) -> None:
    """All figures of one server."""
    with closing(startup.connect(server.bootstrap)) as raw:
        topic = {
            "name": TOPIC,
            "num_partitions": options.partitions,
            "replication_factor": 1,
            "assignments": [],
            "configs": [],
        }
        raw.ask(build(CREATE_TOPICS, topics=[topic], timeout_ms=60_000, validate_only=False), 5)
        make_topic(raw)
        join(raw, "warm", "m", [TOPIC])
    steps: tuple[Callable[[Server, Namespace], None], ...] = (
        heartbeats,
        large_consumer_group,
        large_classic_group,
        listed,
    )
    for step in steps:
        step(server, options)


def tailrace(stack: ExitStack) -> Server:
    """A cluster of one coordinator."""
    folder = machine.fresh_folder(stack)
    cluster = Cluster(data_dir=folder / "tailrace", settings=SETTINGS)
    stack.callback(cluster.close)
    cluster.start()
    pids = startup.processes(cluster)
    return Server("Tailrace", cluster.bootstrap, tuple(pids.values()), pids["coordinator-0"])


def kafka(stack: ExitStack) -> Server:
    """One node of Apache Kafka."""
    node = servers.Kafka(machine.fresh_folder(stack) / "kafka", SETTINGS)
    stack.callback(node.stop)
    node.start()
    assert node.child is not None
    pid = node.child.process.pid
    return Server("Kafka", node.bootstrap, (pid,), pid)


def table(measured: Sequence[Server]) -> list[str]:
    """A column for each server."""
    names = dict.fromkeys(name for server in measured for name in server.figures)
    head = f"| | {' | '.join(server.name for server in measured)} |"
    rows = [f"| {name} | {' | '.join(server.figures.get(name, '-') for server in measured)} |" for name in names]
    return [head, "|---" + "|--:" * len(measured) + "|", *rows]


def main(arguments: list[str]) -> None:
    """Measures, and rewrites the section."""
    parser = SECTION.parser("Measures groups beside Apache Kafka.")
    parser.add_argument("--groups", type=int, default=1_000, help="groups for heartbeats")
    parser.add_argument("--members", type=int, default=10_000, help="members of the consumer protocol in all of them")
    parser.add_argument("--large", type=int, default=1_000, help="members of one large group")
    parser.add_argument("--partitions", type=int, default=2_000, help="partitions that the large group reads")
    parser.add_argument("--listed", type=int, default=100_000, help="groups that are listed")
    parser.add_argument("--loaded", type=int, default=1_000_000, help="offsets of a shard that is loaded")
    parser.add_argument("--only", choices=("tailrace", "kafka"), help="leave the other out")
    options = parser.parse_args(arguments)
    measured: list[Server] = []
    for name, start in (("tailrace", tailrace), ("kafka", kafka)):
        if options.only in (None, name) and not (name == "kafka" and kafka_peer.missing()):
            with ExitStack() as stack:
                measured.append(start(stack))
                measure(measured[-1], options)
    seconds, longest_ms = asyncio.run(loading(options.loaded))
    loaded = (
        f"A shard of {options.loaded:,} offsets is loaded in {seconds:.1f} s of processor time. Meanwhile the longest "
        f"time without another turn of the event loop is {longest_ms:.1f} ms."
    )
    SECTION.write([*table(measured), "", loaded], arguments, options.output)


if __name__ == "__main__":
    main(sys.argv[1:])
