"""Effects and the shard runner that coordinators share. Pure."""

from tailrace.state.effects import SHELL, Decision, Effects, Timer, Token
from tailrace.state.partitioner import hashing_rows, java_hash, partition_for
from tailrace.state.shard import Batch, KeyValue, Machine, Output, Overloaded, Shard, size_bytes
from tailrace.state.transactions import EndOfTransaction, InTransaction, Producer

__all__ = [
    "SHELL",
    "Batch",
    "Decision",
    "Effects",
    "EndOfTransaction",
    "InTransaction",
    "KeyValue",
    "Machine",
    "Output",
    "Overloaded",
    "Producer",
    "Shard",
    "Timer",
    "Token",
    "hashing_rows",
    "java_hash",
    "partition_for",
    "size_bytes",
]
