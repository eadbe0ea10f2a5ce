"""What a shard writes within a producer's transaction (KIP-98), as records of a decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

R = TypeVar("R")


class ProducerIdAndEpoch(NamedTuple):
    """Whose transaction something belongs to."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class InTransaction(Generic[R]):
    """A record that counts from its producer's commit on, and never after an abort."""

    producer: ProducerIdAndEpoch
    record: R


@dataclass(frozen=True, slots=True)
class EndOfTransaction:
    """A marker: what its producer wrote before it counts, or does not."""

    producer: ProducerIdAndEpoch
    committed: bool
    coordinator_epoch: int  # of the transaction's coordinator
