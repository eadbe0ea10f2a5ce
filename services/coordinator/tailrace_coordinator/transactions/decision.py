"""One decision of the transaction machine under way, and what its shell is asked to do."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.coordination.transaction_records import TransactionRecord, TransactionState
from tailrace.state import Decision
from tailrace_coordinator.transactions.config import TransactionConfig

TimerKey = tuple[str, ...]
TIMEOUTS_KEY: TimerKey = ("timeouts",)  # the next look for transactions past their timeout
EXPIRY_KEY: TimerKey = ("expiry",)  # the next look for transactional ids that nobody uses


@dataclass(frozen=True, slots=True)
class SendMarkers:
    """The outcome is in the log: every partition of the transaction is to get its marker."""

    transaction: TransactionState


class TransactionDecision(Decision[TransactionRecord]):
    """Collects the effects of one decision; now_ms is wall time."""

    __slots__ = ("config", "now_ms")

    def __init__(self, config: TransactionConfig, now_ms: int) -> None:
        super().__init__()
        self.config = config
        self.now_ms = now_ms
