"""Effects and the shard runner that coordinators share. Pure."""

from tailrace.state.effects import SHELL, Decision, Effects, Sweep, Timer, Token
from tailrace.state.limits import ANSWERS_AT_ONCE, ROWS_AT_ONCE
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
    "ANSWERS_AT_ONCE",
    "RECORD_OVERHEAD_BYTES",
    "ROWS_AT_ONCE",
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
