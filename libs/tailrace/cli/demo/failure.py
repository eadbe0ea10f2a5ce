"""The failure in the middle of the main job: one broker that leads is killed (SIGKILL) while lines are on their way."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tailrace.cli.daily.moving import follow
from tailrace.cli.daily.nodes import Nodes
from tailrace.cli.daily.refusals import RefusedError
from tailrace.cli.demo.silence import Silence
from tailrace.metadata.moves import Partition, spread
from tailrace.runtime.clock import SystemClock
from tailrace.runtime.run_files import RunFile

COPIES = 3
_LOOK_MS = 200
_LOOKS_MAX = 600  # two minutes


class Victim(NamedTuple):
    """The broker to kill: the one that leads most partitions of the topic."""

    broker_id: int
    pid: int
    led: frozenset[int]


class Failure:
    """One kill and what came of it. `strike` and `acknowledged` are called while the job runs, from any thread."""

    def __init__(self, bootstrap: str, topic: str, victim: Victim, say: Callable[[str], None]) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._victim = victim
        self._say = say
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._silence = Silence(victim.led)

    def strike(self, in_flight: int) -> None:
        """Kills the broker's process, now."""
        victim = self._victim
        with self._lock:
            self._silence.began(self._clock.monotonic_ms())
        os.kill(victim.pid, signal.SIGKILL)
        self._say(
            f"  KILLED     broker {victim.broker_id} (kill -9 {victim.pid}), which led partitions "
            f"{_list(sorted(victim.led))}, with {in_flight:,} lines on their way"
        )

    def acknowledged(self, partition: int) -> None:
        """A line of this partition was acknowledged."""
        with self._lock:
            self._silence.on_record(partition, self._clock.monotonic_ms())

    def aftermath(self) -> str:
        """What became of the partitions it led, and of the broker; waits until every copy is there again."""
        cluster = Nodes(self._bootstrap)
        try:
            rows = {key[1]: row for key, row in cluster.partitions([self._topic]).items()}
            leaders = Counter(rows[index].leader_id for index in self._victim.led)
            now = " and ".join(f"broker {node}" for node in sorted(leaders))
            longest_ms = self._silence.longest_ms
            back = self._wait_until_whole(cluster)
        finally:
            cluster.close()
        return (
            f"  took over  {now}: no partition was without an acknowledgement for more than {longest_ms:,.0f} ms\n"
            f"  came back  {back}"
        )

    def _wait_until_whole(self, cluster: Nodes) -> str:
        """`tailrace up` starts the broker again; it copies what it missed."""
        broker_id = self._victim.broker_id
        for _ in range(_LOOKS_MAX):
            rows = cluster.partitions([self._topic]).values()
            if all(len(row.isr_nodes) == len(row.replica_nodes) for row in rows):
                return f"broker {broker_id} runs again and has every line: all {COPIES} copies are in sync"
            cluster.pause(_LOOK_MS)
        seconds = _LOOKS_MAX * _LOOK_MS // 1000
        return f"broker {broker_id} is not in sync after {seconds} s; nothing is lost, but look at `tailrace status`"


def victim_of(rows: dict[Partition, Any], data_dir: Path) -> Victim | None:
    """Whom to kill; None where no broker that runs here leads a partition that somebody else could take over."""
    led: dict[int, list[int]] = {}
    for (_, index), row in rows.items():
        if row.leader_id >= 0 and len(row.isr_nodes) > 1:
            led.setdefault(row.leader_id, []).append(index)
    for broker_id in sorted(led, key=lambda node: (-len(led[node]), node)):
        file = RunFile.read(data_dir / "run" / f"broker-{broker_id}.json")
        if file is not None and file.is_running() and file.pid != os.getpid():
            return Victim(broker_id, file.pid, frozenset(led[broker_id]))
    return None


def prepared(bootstrap: str, data_dir: Path, topic: str, say: Callable[[str], None]) -> Failure | None:
    """Sees to it that the topic has its copies and picks the broker; None where there are too few brokers."""
    cluster = Nodes(bootstrap)
    try:
        live = {broker.broker_id: broker.rack for broker in cluster.brokers() if not broker.fenced}
        if len(live) < COPIES:
            return None
        _copy(cluster, topic, live, say)
        victim = victim_of(cluster.partitions([topic]), data_dir)
    finally:
        cluster.close()
    return None if victim is None else Failure(bootstrap, topic, victim, say)


def _copy(cluster: Nodes, topic: str, live: dict[int, str | None], say: Callable[[str], None]) -> None:
    """A topic from when there were fewer brokers gets its copies now."""
    replicas = [tuple(row.replica_nodes) for _, row in sorted(cluster.partitions([topic]).items())]
    if all(len(nodes) >= COPIES for nodes in replicas):
        return
    say(f"{topic} is from when there were fewer brokers: making {COPIES} copies of each partition …")
    plan = spread({topic: replicas}, live, COPIES)
    for (name, index), why in cluster.reassign(plan).items():
        if why:
            raise RefusedError(f"{name}-{index}: {why}")
    follow(cluster, plan)


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
