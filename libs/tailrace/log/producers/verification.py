"""Producers whose first batch of a transaction waits for the transaction's coordinator (KIP-890). Pure.

A transactional batch may begin a transaction in a log only if the coordinator was asked since: whether it knows of the
partition, or to add it. The entry that is made before asking is removed by the next transactional batch or marker of
its producer. So an answer that a marker overtook finds its own entry gone, and lets nothing in, also where another
entry was made meanwhile. Kafka calls it VerificationGuard.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MOST_KEPT: Final = 10_000  # of one log; an honest producer leaves one behind only where it never tries again


class Verification:
    """lowest_sequence: of the batches that have asked, so that a later one cannot come before one that was refused."""

    __slots__ = ("began_ms", "is_verified", "lowest_sequence", "producer_epoch", "supports_epoch_bump")

    def __init__(self, sequence: int, epoch: int, began_ms: int, *, supports_epoch_bump: bool) -> None:
        self.lowest_sequence = sequence
        self.producer_epoch = epoch
        self.began_ms = began_ms
        self.supports_epoch_bump = supports_epoch_bump  # of transaction version 2: sequences begin at 0 with each epoch
        self.is_verified = False  # only while the batches that may use it are being appended


def admit(verifications: Iterable[Verification], is_verified: bool) -> None:
    """Lets the batches in that were verified so, or no others any more."""
    for one in verifications:
        one.is_verified = is_verified


class Verifications:
    """Of one log, by producer id."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def get(self, producer_id: int) -> Verification | None:
        """The one that counts now."""
        return self._by_producer.get(producer_id)

    def begin(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, supports_epoch_bump: bool
    ) -> Verification:
        """The one under which a batch of this producer may ask; beyond MOST_KEPT the oldest go."""
        found = self._by_producer.get(producer_id)
        if found is None:
            if len(self._by_producer) >= MOST_KEPT:
                del self._by_producer[next(iter(self._by_producer))]
            found = Verification(sequence, epoch, now_ms, supports_epoch_bump=supports_epoch_bump)
            self._by_producer[producer_id] = found
        elif epoch > found.producer_epoch:
            found.producer_epoch, found.lowest_sequence = epoch, sequence
        elif epoch == found.producer_epoch:
            found.lowest_sequence = min(found.lowest_sequence, sequence)
        return found

    def ended(self, producer_id: int, marker_epoch: int) -> None:
        """A marker has ended a transaction of the producer: the one that is asked about, unless that is a later one.

        In transaction version 2 the marker of a transaction has the epoch after its own. So one of the epoch that asks
        is of the transaction before, for whose end the coordinator lets the next one wait.
        """
        found = self._by_producer.get(producer_id)
        if found is None or (found.supports_epoch_bump and marker_epoch <= found.producer_epoch):
            return
        del self._by_producer[producer_id]

    def clear(self, producer_id: int) -> None:
        """The producer's transaction has begun in the log."""
        if self._by_producer:
            self._by_producer.pop(producer_id, None)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets those whose producers have not tried again for producer.id.expiration.ms."""
        for producer_id in [one for one, v in self._by_producer.items() if now_ms - v.began_ms >= expiration_ms]:
            del self._by_producer[producer_id]
