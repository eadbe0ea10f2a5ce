"""Effects and the shard runner that coordinators share. Pure."""

from tailrace.state.effects import ROWS_A_DECISION, SHELL, Decision, Effects, Sweep, Timer, Token
from tailrace.state.partitioner import java_hash, partition_for
from tailrace.state.shard import (
    RECORD_OVERHEAD_BYTES,
    KeyValue,
    Machine,
    Output,
    Overloaded,
    Shard,
    ShardBatch,
    size_bytes,
)
from tailrace.state.transactions import EndOfTransaction, InTransaction, ProducerIdAndEpoch

__all__ = [
    "RECORD_OVERHEAD_BYTES",
    "ROWS_A_DECISION",
    "SHELL",
    "Decision",
    "Effects",
    "EndOfTransaction",
    "InTransaction",
    "KeyValue",
    "Machine",
    "Output",
    "Overloaded",
    "ProducerIdAndEpoch",
    "Shard",
    "ShardBatch",
    "Sweep",
    "Timer",
    "Token",
    "java_hash",
    "partition_for",
    "size_bytes",
]
