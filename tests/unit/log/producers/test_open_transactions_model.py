"""Transactions against a list of batches: any history, any crash, the same committed records and last stable offset."""

import random
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from support.logs import NOW, append, open_log, with_settings
from support.transactions import (
    Seen,
    all_batches,
    batches,
    data_batch,
    expected,
    marker_batch,
    read_committed,
    write,
)
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.log import Log
from tailrace.log.retention import delete_retention
from tailrace.records.markers import ABORT, COMMIT

SETTINGS = with_settings(segment_bytes=400, index_interval_bytes=100)
PRODUCERS = st.integers(1, 3)


def check(log: Log, known: list[Seen], max_bytes: int) -> None:
    """What consumers are given from the log's start on is what all batches there ever were say."""
    start, end = log.log_start_offset, log.log_end_offset
    wanted = expected(known, end)
    assert log.last_stable_offset(end) == max(start, wanted.last_stable_offset)
    found = read_committed(log, end, max_bytes, start)
    assert found == [row for row in wanted.committed if row[0] >= start]


class TransactionsAgainstAList(RuleBasedStateMachine):
    """known holds every batch that must be in the log or was deleted from its start."""

    def __init__(self) -> None:
        super().__init__()
        self.filesystem = MemoryFilesystem()
        self.log = open_log(self.filesystem, SETTINGS)
        self.twin = open_log(MemoryFilesystem(), SETTINGS)  # a follower, behind by what was not replicated yet
        self.known: list[Seen] = []
        self.max_bytes = 300

    def take(self, data: bytearray) -> None:
        write(self.log, data)
        self.known += batches(data)

    @rule(producer=PRODUCERS, count=st.integers(1, 3))
    def data(self, producer: int, count: int) -> None:
        self.take(data_batch(producer, *(b"%d" % number for number in range(count))))

    @rule(producer=PRODUCERS, kind=st.sampled_from([ABORT, COMMIT]))
    def marker(self, producer: int, kind: int) -> None:
        self.take(marker_batch(producer, kind))

    @rule()
    def plain(self) -> None:
        append(self.log, b"plain")
        self.known += list(batches(self.log.read(self.log.log_end_offset - 1, 1).read()))

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        start = self.log.log_start_offset
        self.replicate()
        self.log.truncate_to(start + int(share * (self.log.log_end_offset - start)))
        self.twin.truncate_to(self.log.log_end_offset)
        self.known = [seen for seen in self.known if seen.header.base_offset < self.log.log_end_offset]

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        start = self.log.log_start_offset
        self.replicate()
        self.log.advance_log_start_offset(start + int(share * (self.log.log_end_offset - start)))
        delete_retention(self.log, 0, self.log.log_end_offset)

    @rule()
    def flush(self) -> None:
        self.log.flush(NOW)

    @rule()
    def kill(self) -> None:
        point, start = self.log.recovery_point, self.log.log_start_offset
        self.log = open_log(self.filesystem, SETTINGS, log_start_offset=start, recovery_point=point)

    @rule()
    def restart(self) -> None:
        self.log.close()
        point, start = self.log.recovery_point, self.log.log_start_offset
        self.log = open_log(self.filesystem, SETTINGS, log_start_offset=start, recovery_point=point, clean=True)

    @rule()
    def replicate(self) -> None:
        while self.twin.log_end_offset < self.log.log_end_offset:
            piece = self.log.read(self.twin.log_end_offset, 500)
            self.twin.append_replicated(piece.read(), NOW)

    @rule(size=st.integers(1, 1000))
    def read_in_other_pieces(self, size: int) -> None:
        self.max_bytes = size

    @invariant()
    def consumers_get_what_is_committed(self) -> None:
        check(self.log, self.known, self.max_bytes)
        behind = [seen for seen in self.known if seen.header.base_offset < self.twin.log_end_offset]
        check(self.twin, behind, self.max_bytes)


TransactionsAgainstAList.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestTransactionsAgainstAList = TransactionsAgainstAList.TestCase


class Died(OSError):
    """The machine lost its power: nothing that the process does has an effect."""


class MortalFilesystem(MemoryFilesystem):
    """Counts every operation; from the one numbered `dies_at` on all fail."""

    def __init__(self) -> None:
        super().__init__()
        self.operations, self.dies_at = 0, -1

    def maybe_fail(self, operation: str) -> None:
        self.operations += 1
        if 0 <= self.dies_at < self.operations:
            raise Died
        super().maybe_fail(operation)


def opened(filesystem: MemoryFilesystem) -> tuple[LogDir, Log]:
    log_dir = LogDir.open(filesystem, "/logs", node_id=0, cluster_id="c", now_ms=NOW)
    return log_dir, log_dir.create("topic", 0, UUID(int=1), SETTINGS)


def life(log_dir: LogDir, log: Log, seed: int) -> None:
    """Transactions, rolls, flushes with their checkpoints, and cuts."""
    choice = random.Random(seed)
    for step in range(25):
        producer = choice.randrange(3)
        if choice.random() < 0.6:
            batch = data_batch(producer, b"%d" % step)
        else:
            batch = marker_batch(producer, choice.choice([ABORT, COMMIT]))
        log.append([batch], 0, NOW, from_client=False)
        if log.storage_error is not None:
            raise log.storage_error
        if step % 7 == 3:
            log.flush(NOW)
            log_dir.checkpoint()
        if step % 9 == 8:
            log.truncate_to(max(0, log.log_end_offset - 4))
    log_dir.close(broker_epoch=1)


@pytest.mark.parametrize("seed", range(2))
def test_a_crash_at_any_step_leaves_indexes_that_agree_with_the_batches(seed: int) -> None:
    dies_at, ended = 0, False
    while not ended:
        filesystem = MortalFilesystem()
        log_dir, log = opened(filesystem)
        dies_at += 1
        filesystem.dies_at = filesystem.operations + dies_at
        try:
            life(log_dir, log, seed)
            ended = True
        except Died:
            log_dir.release()
        filesystem.dies_at = -1
        if dies_at % 4:
            filesystem.crash(random.Random(dies_at))
        log_dir, log = opened(filesystem)
        check(log, all_batches(log), 10_000)
        log_dir.close(broker_epoch=2)
        log = opened(filesystem)[1]
        check(log, all_batches(log), 10_000)
    assert dies_at > 50
