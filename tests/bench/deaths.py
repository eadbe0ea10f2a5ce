"""`PYTHONPATH=tests python -m bench.deaths`: a broker or a coordinator is killed under groups and transactions.

Three brokers, three replicas of everything, two coordinators. Each group has one librdkafka consumer that commits an
offset every 50 ms; each transactional librdkafka producer sends one record and commits, every 50 ms as well. A round
kills one process with SIGKILL. What counts is the longest time between two commits of each client whose shard the
killed broker led, or the killed coordinator owned. Then the process comes back, and leaders go to where they were.
"""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import statistics
import sys
import time
from abc import abstractmethod
from argparse import Namespace
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Final

from confluent_kafka import Consumer, ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from bench import machine, servers
from bench.failover import percentile
from bench.report import say
from bench.section import Section
from support.nodes import START_S
from support.raw import build
from support.replicated import DESCRIBE_TOPICS, Replicated, create
from support.tailrace_nodes import TailraceNodes
from support.waiting import HUNG_S, until
from support.worker import Worker
from tailrace.kafka.topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tailrace.state import partition_for

SECTION = Section("deaths", "bench.deaths", kafka=False)
INTERNAL: Final = (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC)
SHARDS: Final = 12  # of each internal topic
COORDINATORS: Final = 2
PAUSE_S: Final = 0.05
SETTLED: Final = 20  # commits of each client before a kill, and after it
SETTINGS: Final = {
    "offsets.topic.num.partitions": str(SHARDS),
    "transaction.state.log.num.partitions": str(SHARDS),
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
Key = tuple[str, int]  # an internal topic and its partition


class Committer(Worker):
    """A client that commits again and again, and when each commit had succeeded."""

    def __init__(self, name: str, internal: str) -> None:
        super().__init__(name)
        self.shard: Key = (internal, partition_for(name, SHARDS))
        self.internal = internal
        self.refused: list[str] = []
        self._at: list[float] = []

    @abstractmethod
    def _commit(self) -> None:
        """Commits once. Raises KafkaException."""

    def _run(self) -> None:
        while not self._stop.wait(PAUSE_S):
            try:
                self._commit()
            except KafkaException as error:
                self.refused.append(str(error))
                continue
            with self._news:
                self._at.append(time.monotonic())
                self._news.notify_all()

    @property
    def count(self) -> int:
        """How many commits have succeeded."""
        return len(self._at)

    def wait_for(self, count: int) -> None:
        """Returns when so many commits have succeeded since the start."""
        with self._news:
            if not self._news.wait_for(lambda: len(self._at) >= count, HUNG_S):
                raise TimeoutError(f"{self._thread.name}: {len(self._at)} commits of {count}; {self.refused[-1:]}")

    def silence_ms(self, since: int) -> float:
        """The longest time between two commits, from that one on."""
        return 1000 * max(after - before for before, after in itertools.pairwise(self._at[since - 1 :]))


class Group(Committer):
    """A group with one member."""

    def __init__(self, bootstrap: str, topic: str, name: str) -> None:
        super().__init__(name, GROUP_METADATA_TOPIC)
        self._topic = topic
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name, "log_level": 2})
        self._consumer.subscribe([topic])

    def _commit(self) -> None:
        self._consumer.poll(0)
        if self._consumer.assignment():
            self._consumer.commit(offsets=[TopicPartition(self._topic, 0, len(self._at))], asynchronous=False)
        else:
            raise KafkaException("no assignment")

    def _close(self) -> None:
        self._consumer.close()


class Transactions(Committer):
    """A transactional producer."""

    def __init__(self, bootstrap: str, topic: str, name: str) -> None:
        super().__init__(name, TRANSACTION_STATE_TOPIC)
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0, "log_level": 2}
        )
        self._producer.init_transactions()

    def _commit(self) -> None:
        self._producer.begin_transaction()
        self._producer.produce(self._topic, b"x", partition=0)
        while True:
            try:
                self._producer.commit_transaction()
            except KafkaException as refused:
                error = refused.args[0]
                if error.retriable():
                    self.refused.append(str(error))
                    continue
                if error.txn_requires_abort():
                    self._producer.abort_transaction()
                raise
            return

    def _close(self) -> None:
        self._producer.flush(HUNG_S)


def leaders(nodes: TailraceNodes) -> dict[Key, int]:
    """The broker that leads each shard's partition."""
    topics = [{"name": name} for name in INTERNAL]
    request = build(DESCRIBE_TOPICS, topics=topics, response_partition_limit=2000, cursor=None)
    found = nodes.ask(nodes.live()[0], request, 0).topics
    return {(topic.name, row.partition_index): row.leader_id for topic in found for row in topic.partitions}


def owners(nodes: TailraceNodes) -> dict[Key, int]:
    """The coordinator of each shard."""
    with closing(sqlite3.connect(nodes.folder / "metadata.db")) as database:
        rows = database.execute("select topic, partition_id, owner from shards").fetchall()
    return {(topic, partition): owner for topic, partition, owner in rows}


def is_spread(places: Mapping[Key, int], count: int) -> bool:
    """Whether each of so many processes has its share of both topics."""
    shares = {(topic, place) for (topic, _), place in places.items()}
    return len(shares) == len(INTERNAL) * count and len(places) == len(INTERNAL) * SHARDS


def one_round(nodes: TailraceNodes, role: str, victim: int, clients: Sequence[Committer]) -> dict[str, list[float]]:
    """Kills a process; the silences of the clients that it concerned, by internal topic, in ms."""
    places = leaders(nodes) if role == "broker" else owners(nodes)
    concerned = [client for client in clients if places[client.shard] == victim]
    for client in clients:
        client.wait_for(client.count + SETTLED)
    counts = [client.count for client in concerned]
    os.kill(nodes.process_id(f"{role}-{victim}"), signal.SIGKILL)
    nodes.children[f"{role}-{victim}"].ended()
    for client, count in zip(concerned, counts, strict=True):
        client.wait_for(count + SETTLED)
    silences = defaultdict(list)
    for client, count in zip(concerned, counts, strict=True):
        silences[client.internal].append(client.silence_ms(count))
    return silences


def come_back(nodes: TailraceNodes, role: str, victim: int, topics: Sequence[Replicated], admin: AdminClient) -> None:
    """The process serves again, and has its shards."""
    nodes.launch_role(role, victim).wait_until_ready(START_S)
    if role == "coordinator":
        until(lambda: is_spread(owners(nodes), COORDINATORS), "the shards are spread")
        return
    for topic in topics:
        topic.wait_for_isr(*nodes.ids)
    admin.elect_leaders(ElectionType.PREFERRED).result(HUNG_S)
    until(lambda: is_spread(leaders(nodes), servers.BROKERS), "the leaders are spread")


def measure(options: Namespace) -> list[str]:
    """All rounds, as a table."""
    silences: dict[tuple[str, str], list[float]] = defaultdict(list)
    worst: dict[tuple[str, str], list[float]] = defaultdict(list)
    loads: list[float] = []
    with ExitStack() as stack:
        settings = {**servers.THREE, **SETTINGS}
        folder = machine.fresh_folder(stack) / "tailrace"
        nodes = TailraceNodes(folder, servers.BROKERS, settings=settings, coordinators=COORDINATORS)
        stack.enter_context(nodes)
        nodes.wait_for_all()
        topic = create(nodes, [0, 1, 2], word="deaths", min_insync_replicas="2")
        clients: list[Committer] = []
        for number in range(options.clients):
            clients.append(Group(nodes.bootstrap, topic.name, f"group-{number}"))
            clients.append(Transactions(nodes.bootstrap, topic.name, f"producer-{number}"))
        for client in clients:
            stack.enter_context(client)
        until(lambda: is_spread(leaders(nodes), servers.BROKERS), "the leaders are spread")
        until(lambda: is_spread(owners(nodes), COORDINATORS), "the shards are spread")
        topics = [topic, *(Replicated(nodes, name, topic.topic_id) for name in INTERNAL)]
        admin = AdminClient({"bootstrap.servers": nodes.bootstrap})
        for number in range(options.rounds):
            for role, count in (("broker", servers.BROKERS), ("coordinator", COORDINATORS)):
                victim = number % count
                loads.append(os.getloadavg()[0])
                found = one_round(nodes, role, victim, clients)
                for internal, times in found.items():
                    silences[role, internal] += times
                    worst[role, internal].append(max(times))
                said = ", ".join(f"{internal} {max(times):.0f} ms" for internal, times in found.items())
                say(f"round {number + 1}, {role} {victim}: {said}")
                come_back(nodes, role, victim, topics, admin)
        refused = sum(len(client.refused) for client in clients)
        commits = sum(client.count for client in clients)
    names = dict(zip(INTERNAL, ("commits of groups", "transactions"), strict=True))
    rows = [(role, internal) for role in ("broker", "coordinator") for internal in INTERNAL]
    return [
        "| killed | without | p50 ms | p90 ms | max ms | the last client of a round, p50 ms |",
        "|---|---|--:|--:|--:|--:|",
        *(
            f"| {role} | {names[internal]} {figures(silences[role, internal], worst[role, internal])}"
            for role, internal in rows
        ),
        "",
        f"{options.rounds} rounds of each, {options.clients} groups and {options.clients} producers; "
        f"{commits:,} commits, {refused} refused. "
        f"Load average of the machine {statistics.median(loads):.0f} (1 minute, median).",
    ]


def figures(times: list[float], worst: list[float]) -> str:
    """The cells of a row."""
    cells = statistics.median(times), percentile(times, 0.9), max(times), statistics.median(worst)
    return "".join(f"| {cell:,.0f} " for cell in cells) + "|"


def main(arguments: list[str]) -> None:
    """Measures, and rewrites the section."""
    parser = SECTION.parser("Measures how long groups and transactions stand still when a process dies.")
    parser.add_argument("--rounds", type=int, default=10, help="kills of a broker, and of a coordinator")
    parser.add_argument("--clients", type=int, default=10, help="groups, and as many transactional producers")
    options = parser.parse_args(arguments)
    SECTION.write(measure(options), arguments, options.output)


if __name__ == "__main__":
    main(sys.argv[1:])
