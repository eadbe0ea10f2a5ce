"""What a script may ask of a client. A client that has no such call leaves the method out of its class."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

EARLIEST, LATEST = "earliest", "latest"
SESSION_TIMEOUT_MS, HEARTBEAT_MS = 6000, 300


@dataclass(frozen=True)
class Record:
    """A record to produce, or one that was read (then with its offset)."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int = 0
    timestamp_ms: int | None = None
    offset: int = -1


class Refused(Exception):
    """The cluster's refusal, by its error code."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(f"error {code}: {message}")
        self.code = code


class Member(ABC):
    """A member of a consumer group that keeps polling on a thread of its own; waits are woken by its rebalances."""

    changed = threading.Condition()  # shared: a script waits for several members at once

    def __init__(self) -> None:
        self.partitions: frozenset[int] = frozenset()
        self.values: list[bytes | None] = []
        self.failure: BaseException | None = None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.run()
        except BaseException as failure:
            self.failure = failure
            with self.changed:
                self.changed.notify_all()
            raise

    @abstractmethod
    def run(self) -> None:
        """Polls until `stopping`, then leaves the group."""

    def saw(self, partitions: Any, values: Sequence[bytes | None] = ()) -> None:
        """Notes the assignment and what was read."""
        now = frozenset(partitions)
        if now != self.partitions or values:
            with self.changed:
                self.partitions = now
                self.values.extend(values)
                self.changed.notify_all()

    def leave(self) -> None:
        """Leaves the group and ends the thread."""
        self.stopping.set()
        self.thread.join(30)
        assert not self.thread.is_alive(), "the member does not stop"
        self.partitions = frozenset()


def await_members(ready: Any, members: Sequence[Member], what: str, timeout_s: float = 30) -> None:
    """Waits until `ready()` holds; woken by every change of any member."""
    deadline = time.monotonic() + timeout_s
    with Member.changed:
        while not ready():
            for member in members:
                if member.failure is not None:
                    raise AssertionError(f"{what}: a member failed") from member.failure
            left = deadline - time.monotonic()
            if left <= 0 or not Member.changed.wait(left):
                raise TimeoutError(f"{what}: {[sorted(member.partitions) for member in members]}")


def await_share(members: Sequence[Member], partitions: int, timeout_s: float = 30) -> None:
    """Waits until the members share all partitions evenly, each owned once.

    A cooperative rebalance passes through uneven shares that are whole, too.
    """

    def shared() -> bool:
        owned = [p for member in members for p in member.partitions]
        sizes = [len(member.partitions) for member in members]
        return sorted(owned) == list(range(partitions)) and max(sizes) - min(sizes) <= 1

    await_members(shared, members, f"{len(members)} members sharing {partitions} partitions", timeout_s)


class Client(ABC):
    """A client library against one cluster."""

    name: str
    assignors: frozenset[str]

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @abstractmethod
    def create_topic(
        self, name: str, partitions: int = 1, replication_factor: int = 1, configs: dict[str, str] | None = None
    ) -> None: ...

    @abstractmethod
    def delete_topic(self, name: str) -> None: ...

    @abstractmethod
    def list_topics(self) -> set[str]: ...

    @abstractmethod
    def partition_count(self, topic: str) -> int: ...

    @abstractmethod
    def add_partitions(self, topic: str, total: int) -> None: ...

    @abstractmethod
    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        acks: int | str = "all",
        compression: str | None = None,
        idempotent: bool = False,
        partitioned: bool = True,
    ) -> list[tuple[int, int]]:
        """Produces; answers (partition, offset) of each (offset -1 with acks=0)."""

    @abstractmethod
    def read(self, topic: str, start: int | str, count: int, partition: int = 0) -> list[Record]:
        """Reads so many records of one partition from an offset, EARLIEST or LATEST."""

    @abstractmethod
    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        """The first offset of partition 0 at or after the timestamp."""

    @abstractmethod
    def commit(self, group: str, topic: str, offset: int, metadata: str) -> None: ...

    @abstractmethod
    def committed(self, group: str, topic: str) -> tuple[int, str] | None: ...

    @abstractmethod
    def describe_config(self, kind: str, name: str) -> dict[str, tuple[str | None, int]]:
        """Every config of a "topic" or "broker": value and source."""

    @abstractmethod
    def alter_topic_config(self, topic: str, configs: dict[str, str]) -> None: ...

    @abstractmethod
    def list_groups(self) -> set[str]: ...

    @abstractmethod
    def describe_group(self, group: str) -> tuple[str, int]:
        """The state and how many members."""

    @abstractmethod
    def delete_records(self, topic: str, before: int) -> None: ...

    @abstractmethod
    def join(self, group: str, topic: str, assignor: str = "range", instance_id: str | None = None) -> Member: ...

    @abstractmethod
    def close(self) -> None: ...
