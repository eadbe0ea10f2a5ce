"""Effects and the shard runner that coordinators share. Pure."""

from tailrace.state.effects import Decision, Effects, Timer, Token
from tailrace.state.partitioner import hashing_rows, java_hash, partition_for
from tailrace.state.shard import KeyValue, Machine, Output, Overloaded, Shard, size_bytes

__all__ = [
    "Decision",
    "Effects",
    "KeyValue",
    "Machine",
    "Output",
    "Overloaded",
    "Shard",
    "Timer",
    "Token",
    "hashing_rows",
    "java_hash",
    "partition_for",
    "size_bytes",
]
