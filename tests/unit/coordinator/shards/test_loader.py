"""What a shard's machine knows once its partition is loaded, and how much of the partition is decoded for it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from support.coordinator import CONFIG
from tailrace.coordination import group_records
from tailrace.coordination.fields import BadRecord
from tailrace.coordination.group_records import OffsetCommitted, OffsetRemoved
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.records.batch import read_header, split
from tailrace.records.markers import marker_record
from tailrace.records.record import Record, build
from tailrace.state import EndOfTransaction, InTransaction, ProducerIdAndEpoch, ShardBatch
from tailrace_coordinator.groups.machine import GroupMachine
from tailrace_coordinator.kinds import KINDS
from tailrace_coordinator.shards.loader import CoordinatorLoader
from tailrace_coordinator.shards.partition_log import Barrier

Entry = OffsetCommitted | OffsetRemoved | InTransaction[OffsetCommitted] | EndOfTransaction
KIND = KINDS[GROUP_METADATA_TOPIC]
GROUPS, PARTITIONS = ("one", "two"), range(2)
PRODUCERS = (ProducerIdAndEpoch(7, 0), ProducerIdAndEpoch(8, 0))


class WrittenLog:
    """A partition with a batch for each entry, which one read gets."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.raw = b"".join(batch(entry, offset) for offset, entry in enumerate(entries))
        self.end = len(entries)

    async def fence(self) -> Barrier:
        return Barrier(self.end - 1, 0, 0)

    async def read(self, offset: int) -> bytes:
        return self.raw

    async def append(self, batch: ShardBatch, base_offset: int, now_ms: int) -> int:
        raise NotImplementedError


def batch(entry: Entry, offset: int) -> bytes:
    producer: ProducerIdAndEpoch | None = None
    key: bytes
    value: bytes | None
    if isinstance(entry, EndOfTransaction):
        producer, (key, value) = entry.producer, marker_record(entry.committed, entry.coordinator_epoch)
    elif isinstance(entry, InTransaction):
        producer, (key, value) = entry.producer, KIND.encode(entry.record)
    else:
        key, value = KIND.encode(entry)
    producer_id, producer_epoch = producer or (-1, -1)
    return bytes(
        build(
            [Record(offset, 1, key, value)],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transactional=producer is not None,
            control=isinstance(entry, EndOfTransaction),
        )
    )


def unexpected(offset: int, bad: BadRecord) -> None:
    raise AssertionError(f"at {offset}") from bad


async def loaded(entries: Sequence[Entry], decoded: list[bytes] | None = None) -> GroupMachine:
    def decode(key: bytes, value: bytes | None) -> Any:
        if decoded is not None:
            decoded.append(key)
        return group_records.decode(key, value)

    machine = KIND.machine(CONFIG)
    assert isinstance(machine, GroupMachine)
    await CoordinatorLoader(
        WrittenLog(entries), replace(KIND, decode=decode), machine, unexpected, asyncio.Lock()
    ).load()
    return machine


def offsets_of(machine: GroupMachine) -> dict[str, Any]:
    return {group_id: dict(machine.offsets.of_group(group_id)) for group_id in GROUPS}


async def test_of_the_commits_that_replace_each_other_the_last_is_decoded() -> None:
    commits = [OffsetCommitted(GROUPS[n % 2], "t", 0, n) for n in range(1_000)]
    decoded: list[bytes] = []
    machine = await loaded(commits, decoded)
    assert len(decoded) == 2
    assert offsets_of(machine) == {"one": {("t", 0): commits[-2]}, "two": {("t", 0): commits[-1]}}


def made_up(chance: random.Random) -> list[Entry]:
    entries = list[Entry]()
    for number in range(chance.randrange(1, 60)):
        offset = OffsetCommitted(chance.choice(GROUPS), "t", chance.choice(PARTITIONS), number)
        producer = chance.choice(PRODUCERS)
        kinds: tuple[Entry, ...] = (
            offset,
            offset,
            OffsetRemoved(offset.group_id, offset.topic, offset.partition),
            InTransaction(producer, offset),
            EndOfTransaction(producer, chance.random() < 0.5, 0),
        )
        entries.append(chance.choice(kinds))
    return entries


async def test_a_load_leads_to_what_each_record_in_turn_leads_to() -> None:
    for seed in range(200):
        entries = made_up(random.Random(seed))
        machine, expected = await loaded(entries), KIND.machine(CONFIG)
        for entry in entries:
            expected.apply(entry)
        assert isinstance(expected, GroupMachine)
        assert offsets_of(machine) == offsets_of(expected), seed
        for producer in PRODUCERS:  # what is pending comes out at a commit
            for one in (machine, expected):
                one.apply(EndOfTransaction(producer, True, 0))
        assert offsets_of(machine) == offsets_of(expected), seed
        assert set(machine.groups) == set(expected.groups), seed


class PagedLog(WrittenLog):
    """A partition of which each read gets one batch."""

    async def read(self, offset: int) -> bytes:
        await asyncio.sleep(0)  # others begin
        return next(bytes(each) for each in split(self.raw) if read_header(each).base_offset == offset)


async def test_shards_are_loaded_one_after_the_other_and_a_long_one_does_not_keep_short_ones_waiting() -> None:
    """Half of many shards answer in half of the time."""
    applying, ended = asyncio.Lock(), list[str]()

    async def load(name: str, log: WrittenLog) -> None:
        await CoordinatorLoader(log, KIND, KIND.machine(CONFIG), unexpected, applying).load()
        ended.append(name)

    long = PagedLog([OffsetCommitted("one", f"topic-{n}", 0, n) for n in range(10)])
    short = WrittenLog([OffsetCommitted("one", f"topic-{n}", 0, n) for n in range(5_000)])  # several turns of the loop
    await asyncio.gather(load("long", long), load("first", short), load("second", short), load("third", short))
    assert ended == ["first", "second", "third", "long"]


async def test_the_loop_turns_while_a_large_shard_is_loaded() -> None:
    """Other shards answer meanwhile. The loop turns each 2 ms of processor time, and this takes some 100 ms of it."""
    rows = [KIND.encode(OffsetCommitted("one", f"topic-{n}", 0, n)) for n in range(20_000)]
    log = WrittenLog([])
    log.raw, log.end = bytes(build([Record(at, 1, *row) for at, row in enumerate(rows)])), len(rows)
    machine = KIND.machine(CONFIG)
    loading = asyncio.ensure_future(CoordinatorLoader(log, KIND, machine, unexpected, asyncio.Lock()).load())
    turns = 0
    while not loading.done():
        await asyncio.sleep(0)
        turns += 1
    await loading
    assert len(offsets_of_one(machine)) == len(rows)
    assert turns > 10


def offsets_of_one(machine: Any) -> dict[Any, Any]:
    assert isinstance(machine, GroupMachine)
    return dict(machine.offsets.of_group("one"))
