"""Effects and the shard runner that coordinators share. Pure."""

from tailrace.state.effects import SHELL, Decision, Effects, Timer, Token
from tailrace.state.partitioner import java_hash, partition_for
from tailrace.state.shard import KeyValue, Machine, Output, Overloaded, Shard, ShardBatch, size_bytes
from tailrace.state.transactions import EndOfTransaction, InTransaction, ProducerIdAndEpoch

__all__ = [
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
    "Timer",
    "Token",
    "java_hash",
    "partition_for",
    "size_bytes",
]
