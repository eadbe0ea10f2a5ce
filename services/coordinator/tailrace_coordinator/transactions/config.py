"""What the transaction machine needs of the configuration, by Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.config import Config
from tailrace_coordinator.shards.kind import max_batch_bytes


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Kafka's transaction.* and transactional.* keys with Kafka's defaults, and our own bounds below them."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    abort_timed_out_interval_ms: int = 10_000
    remove_expired_interval_ms: int = 3_600_000

    max_record_bytes: int = 1_000_000
    max_partitions: int = 10_000  # of one transaction


def transaction_config(config: Config) -> TransactionConfig:
    """Returns what the transaction machine needs of the role's configuration."""
    return TransactionConfig(
        transaction_max_timeout_ms=config.transaction_max_timeout_ms,
        transactional_id_expiration_ms=config.transactional_id_expiration_ms,
        abort_timed_out_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
        remove_expired_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        max_record_bytes=max_batch_bytes(config),
    )
