"""Clusters whose nodes a test can kill, pause, stop and start one by one: Tailrace and Apache Kafka in one way."""

from __future__ import annotations

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.ports import HOST
from support.process import Child
from support.raw import Raw, build
from support.waiting import until
from tailrace.testing.stopped import stop_process

START_S = 180
# Both are told the same. A silent node is fenced after 3 s and a follower that lags leaves the ISR after 1.5 s, so that
# a paused follower can be seen in every state; leaders stay where an election put them.
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "200",
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
    "unclean.leader.election.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "log.retention.ms": "-1",  # the tests' batches are of 2023: half a minute after its start a broker would drop them
}


class Nodes(ABC):
    """`count` brokers with ids from 0; node n answers clients at `port` + n and has the rack "r<n>"."""

    is_kafka: bool

    def __init__(self, folder: Path, count: int, port: int, settings: Mapping[str, str]) -> None:
        self.folder, self.count, self.port = folder, count, port
        self.settings = {**SETTINGS, **settings}
        self.children: dict[str, Child] = {}
        self.paused: set[int] = set()
        folder.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def start(self) -> None:
        """Returns when all nodes serve."""

    @abstractmethod
    def launch(self, node: int) -> Child:
        """Starts a node's process and returns at once; its Child is ready when the controller has unfenced it."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- addresses ------------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """host:port of every node, comma separated."""
        return ",".join(f"{HOST}:{self.port + node}" for node in range(self.count))

    @property
    def ids(self) -> range:
        """All node ids."""
        return range(self.count)

    def live(self) -> list[int]:
        """The nodes that run."""
        return [node for node in self.ids if node not in self.paused and self.is_running(node)]

    def is_running(self, node: int) -> bool:
        """Whether the node's process exists."""
        child = self.children.get(f"broker-{node}")
        return child is not None and child.process.poll() is None

    def raw(self, node: int, **options: Any) -> Raw:
        """A raw connection to a node."""
        return Raw(HOST, self.port + node, **options)

    def ask(self, node: int, request: Any, version: int, **options: Any) -> Any:
        """One request to a node on a connection of its own."""
        with self.raw(node, **options) as connection:
            return connection.ask(request, version)

    # -- faults ---------------------------------------------------------------------------------------------------

    def process_id(self, name: str) -> int:
        """Of "broker-0", "controller-0" and so on."""
        return self.children[name].process.pid

    def kill(self, *nodes: int) -> None:
        """kill -9 of all these at once; returns when they are dead. They stay dead."""
        for node in nodes:
            self.signal(node, signal.SIGKILL)
        for node in nodes:
            self.children[f"broker-{node}"].ended()
            self.paused.discard(node)

    def shut_down(self, node: int) -> None:
        """SIGTERM: a controlled shutdown; returns when the process has ended."""
        self.children[f"broker-{node}"].stop()

    def start_node(self, node: int) -> None:
        """Starts a node that is dead; returns when the controller has unfenced it."""
        self.launch(node).wait_until_ready(START_S)

    def pause(self, *nodes: int) -> None:
        """SIGSTOP; returns when no thread of these runs."""
        for node in nodes:
            stop_process(self.process_id(f"broker-{node}"))
            self.paused.add(node)

    def resume(self, *nodes: int) -> None:
        """SIGCONT."""
        for node in nodes:
            self.signal(node, signal.SIGCONT)
            self.paused.discard(node)

    def signal(self, node: int, number: signal.Signals) -> None:
        """To a node's process."""
        os.kill(self.process_id(f"broker-{node}"), number)

    def heal(self) -> None:
        """Every node runs again."""
        self.resume(*self.paused)
        dead = [node for node in self.ids if not self.is_running(node)]
        for child in [self.launch(node) for node in dead]:
            child.wait_until_ready(START_S)
        self.wait_for_all()

    def wait_for_all(self) -> None:
        """Returns when every node has heard from the controller that every node is there."""
        everyone = set(self.ids)
        for node in self.ids:
            until(lambda node=node: self.brokers(node) == everyone, f"node {node} knows {everyone}")  # type: ignore[misc]

    def brokers(self, node: int) -> set[int]:
        """Who is unfenced, as one node knows it (our gateway's Metadata names the dead for a while)."""
        answer = self.ask(node, build(60), 1)
        assert answer.error_code == 0, answer.error_message
        return {row.broker_id for row in answer.brokers}

    # -- the end --------------------------------------------------------------------------------------------------

    def order_of_stopping(self) -> list[str]:
        """Names of the children; those behind the others can do without them."""
        return list(reversed(self.children))

    def stop(self) -> None:
        """Ends every process at once: what a test wants to know it has asked before."""
        self.resume(*self.paused)
        for name in self.order_of_stopping():
            self.children[name].process.kill()
        for child in self.children.values():
            child.ended()


def run_quietly(command: list[str]) -> None:
    """Runs a program; its output is in the error if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")
