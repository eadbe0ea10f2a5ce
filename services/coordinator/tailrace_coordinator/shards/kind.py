"""What a kind of shard is: one row of `kinds.py`. The host knows a kind by its row alone. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from tailrace.config import Config
from tailrace.errors import ErrorCode
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.state import Effects, KeyValue

R = TypeVar("R")
# Of the id of a group or transaction. It stands in the key of every record, and in one for each partition of a commit.
MOST_ID_BYTES: Final = 1_024


class CoordinatorShard(Protocol[R]):
    """The state machine of one partition. Decisions return Effects; records change it by `apply` alone.

    A kind adds the decisions that its handlers ask for: (now_ms, token, ...) -> Effects. What is to be done about very
    many things is a Sweep, which the shell does with other work between.
    """

    def __len__(self) -> int:
        """How many ids it holds."""
        ...

    def apply(self, record: Any) -> None:
        """Changes replicated state; live and in replay alike: an R, or what a transaction has of it.

        That is an InTransaction of an R, or an EndOfTransaction (CoordinatorPlayback in Kafka).
        """
        ...

    def on_loaded(self, now_ms: int, image: MetadataImage) -> Effects[R]:
        """All that was committed is applied, and requests come next: deadlines begin here."""
        ...

    def on_image(self, now_ms: int, delta: MetadataDelta) -> Effects[R]:
        """The cluster is another one: topics, partitions, racks."""
        ...

    def on_timer(self, key: Hashable, now_ms: int) -> Effects[R]:
        """A deadline that an earlier decision set has passed."""
        ...


class Gauge(NamedTuple):
    """One value of a metric, summed up over the shards; the name is without the prefix."""

    name: str
    text: str
    value: float
    labels: Mapping[str, str] = {}


class Report(NamedTuple):
    """What the controller's SQL views show of a shard: the things of a machine, and a row for each with its key."""

    things: Callable[[Any], Iterable[Any]]
    row: Callable[[Any], dict[str, object]]
    key: Sequence[str]


def no_gauges(machines: Sequence[Any]) -> Iterable[Gauge]:
    """Says nothing."""
    return ()


@dataclass(frozen=True, slots=True)
class ShardKind(Generic[R]):
    """How shards of one topic are read, run and shown.

    `request_id` says which id in a request decides its shard: the partition is the hash of it, as in Kafka.
    """

    holds: str  # what `len` of a machine counts, in the plural
    machine: Callable[[Config], CoordinatorShard[R]]  # a new one for each loading
    decode: Callable[[bytes, bytes | None], R | None]  # None: passed over. Raises BadRecord.
    encode: Callable[[R], KeyValue]
    request_id: Callable[[Any], str]
    invalid_id: ErrorCode  # of an id of more than MOST_ID_BYTES
    gauges: Callable[[Sequence[Any]], Iterable[Gauge]] = no_gauges  # of all loaded machines, of which there may be none
    reports: Mapping[str, Report] = field(default_factory=dict)  # by the kind of row


def max_batch_bytes(config: Config) -> int:
    """What one append may hold, so that it fits the topic. Larger records of clients are refused by their machines."""
    return max(1_024, min(1_000_000, config.message_max_bytes - 1_024))
