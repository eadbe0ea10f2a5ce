"""A kind of shard for tests: named sums that grow when asked and are forgotten some time after they last grew."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from tailrace.coordination.fields import BadRecord
from tailrace.errors import ErrorCode
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.state import Effects, KeyValue, Timer, Token
from tailrace_coordinator.shards.kind import Gauge, Report, ShardKind

TOPIC = "__tallies"
KEPT_MS = 1_000


@dataclass(frozen=True, slots=True)
class AddRequest:
    """What a client of tallies asks."""

    name: str
    amount: int


@dataclass(frozen=True, slots=True)
class Tally:
    """A record: the sum of a name, None where it is forgotten."""

    name: str
    total: int | None


def decode(key: bytes, value: bytes | None) -> Tally | None:
    if key.startswith(b"?"):
        return None
    try:
        return Tally(key.decode(), None if value is None else int(value))
    except ValueError:
        raise BadRecord("not a number") from None


def encode(record: Tally) -> KeyValue:
    return record.name.encode(), None if record.total is None else str(record.total).encode()


class Tallies:
    """A name that is a topic's goes with the topic."""

    def __init__(self) -> None:
        self.totals: dict[str, int] = {}
        self.topics_when_loaded = 0

    def __len__(self) -> int:
        return len(self.totals)

    def apply(self, record: Tally) -> None:
        if record.total is None:
            self.totals.pop(record.name, None)
        else:
            self.totals[record.name] = record.total

    def add(self, now_ms: int, token: Token, request: AddRequest) -> Effects[Tally]:
        """Replies the sum."""
        total = self.totals.get(request.name, 0) + request.amount
        timer = Timer(("forget", request.name), KEPT_MS)
        return Effects((Tally(request.name, total),), ((token, total),), (timer,))

    def on_loaded(self, now_ms: int, image: MetadataImage) -> Effects[Tally]:
        self.topics_when_loaded = len(image.topics)
        return Effects(timers=tuple(Timer(("forget", name), KEPT_MS) for name in self.totals))

    def on_image(self, now_ms: int, delta: MetadataDelta) -> Effects[Tally]:
        return Effects(tuple(Tally(name, None) for name in delta.deleted_topics if name in self.totals))

    def on_timer(self, key: Hashable, now_ms: int) -> Effects[Tally]:
        assert isinstance(key, tuple)
        return Effects((Tally(key[1], None),))


def _gauges(machines: Sequence[Tallies]) -> Iterable[Gauge]:
    yield Gauge("tally_count", "Names", sum(map(len, machines)))


def _row(tally: tuple[str, int]) -> dict[str, Any]:
    return {"name": tally[0], "total": tally[1]}


TALLIES: ShardKind[Tally] = ShardKind(
    holds="tallies",
    machine=lambda _: Tallies(),
    decode=decode,
    encode=encode,
    request_id=attrgetter("name"),
    invalid_id=ErrorCode.INVALID_REQUEST,
    gauges=_gauges,
    reports={"tallies": Report(lambda machine: list(machine.totals.items()), _row, ("name",))},
)
