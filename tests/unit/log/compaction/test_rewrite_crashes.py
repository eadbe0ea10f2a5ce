"""A cleaner, or its broker, that dies at any step of the file system: no key is lost and none comes back."""

import random
from collections.abc import Callable
from uuid import UUID

import pytest

from support.logs import NOW, records_of, with_settings
from tailrace.log.compaction import plan
from tailrace.log.compaction.job import decode_job, decode_outcome, encode_job
from tailrace.log.compaction.rewrite import Compaction
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.log import Log
from tailrace.records.record import Record, build
from tailrace_broker.compaction.cleaner_process import clean

PATH, TOPIC = "/logs", "topic"
COMPACTED = with_settings(
    cleanup_policy="compact", segment_bytes=300, min_cleanable_dirty_ratio=0.01, delete_retention_ms=1000
)
LATER = NOW + 5000


class Killed(OSError):
    """The process is no more: nothing that it does has an effect."""


class MortalFilesystem(MemoryFilesystem):
    """Counts every operation; from the one numbered `dies_at` on all fail."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0
        self.dies_at: int | None = None

    def maybe_fail(self, operation: str) -> None:
        self.operations += 1
        if self.dies_at is not None and self.operations > self.dies_at:
            raise Killed
        super().maybe_fail(operation)


def open_dir(filesystem: MemoryFilesystem) -> tuple[LogDir, Log]:
    log_dir = LogDir.open(filesystem, PATH, node_id=0, cluster_id="c", now_ms=NOW)
    return log_dir, log_dir.create(TOPIC, 0, UUID(int=1), COMPACTED)


def fill(log: Log, choice: random.Random, count: int) -> None:
    for number in range(count):
        value = None if choice.random() < 0.3 else b"%d" % number
        batch = build([Record(timestamp=NOW, key=b"k%d" % choice.randrange(7), value=value)])
        assert log.append([batch], 0, NOW)[0].error_code == 0
    log.flush()


def one_pass(filesystem: MemoryFilesystem, log_dir: LogDir, log: Log, now_ms: int) -> None:
    """What the broker and its cleaner process do, in their order, with the job and the outcome as bytes."""
    compaction = plan.begin(log, now_ms, log.log_end_offset)
    if compaction is None:
        return
    answer = clean(filesystem, decode_job(encode_job(compaction.job)), lambda done_bytes: None)
    if b'"failed"' in answer:
        raise Killed
    compaction.take(decode_outcome(answer))
    for _ in plan.swap(log, compaction):
        pass
    compaction.settle()
    plan.end(log, compaction)
    log_dir.begin_cleaner_checkpoint()()


def history(filesystem: MortalFilesystem) -> tuple[LogDir, Log]:
    """A log that was cleaned once, and again has tombstones, superseded values and expired tombstones to clean."""
    choice = random.Random(7)
    log_dir, log = open_dir(filesystem)
    fill(log, choice, 16)
    one_pass(filesystem, log_dir, log, NOW)
    fill(log, choice, 12)
    log_dir.checkpoint()
    return log_dir, log


def alive(log: Log) -> dict[bytes | None, tuple[int, bytes | None]]:
    latest = {record.key: (record.offset, record.value) for record in records_of(log)}
    return {key: where for key, where in latest.items() if where[1] is not None}


def steps_of_a_pass() -> int:
    filesystem = MortalFilesystem()
    log_dir, log = history(filesystem)
    before = filesystem.operations
    one_pass(filesystem, log_dir, log, LATER)
    return filesystem.operations - before


STEPS = steps_of_a_pass()


def powered_off(filesystem: MortalFilesystem, step: int) -> None:
    filesystem.crash(random.Random(step))


def killed(filesystem: MortalFilesystem, step: int) -> None:
    filesystem.kill()


def test_a_pass_has_enough_steps_to_die_at() -> None:
    assert STEPS > 60


@pytest.mark.parametrize("death", [powered_off, killed])
def test_death_at_every_step_loses_and_resurrects_nothing(death: Callable[[MortalFilesystem, int], None]) -> None:
    died = 0
    for step in range(STEPS + 1):
        filesystem = MortalFilesystem()
        log_dir, log = history(filesystem)
        expected, end = alive(log), log.log_end_offset
        filesystem.dies_at = filesystem.operations + step
        try:
            one_pass(filesystem, log_dir, log, LATER)
        except Killed:
            died += 1
        filesystem.dies_at = None
        death(filesystem, step)
        del log_dir, log
        log_dir, log = open_dir(filesystem)
        assert (step, alive(log), log.log_end_offset) == (step, expected, end)
        # What was left half done does not mislead the passes that come: expired tombstones go, no value comes back.
        for now_ms in (LATER, LATER + 5000, LATER + 10_000):
            log.append([build([Record(timestamp=NOW, key=b"more", value=b"v")])], 0, NOW)
            log.roll()
            one_pass(filesystem, log_dir, log, now_ms)
            found = alive(log)
            del found[b"more"]
            assert (step, found) == (step, expected)
        assert all(record.value is not None for record in records_of(log) if record.offset < log.cleaned_offset)
    assert died == STEPS


@pytest.mark.parametrize("step", range(0, STEPS, 9))
def test_a_cleaner_that_dies_alone_leaves_a_broker_that_goes_on(step: int) -> None:
    filesystem = MortalFilesystem()
    log_dir, log = history(filesystem)
    expected = alive(log)
    compaction = plan.begin(log, LATER, log.log_end_offset)
    assert compaction is not None
    filesystem.dies_at = filesystem.operations + step
    clean(filesystem, compaction.job, lambda done_bytes: None)
    filesystem.dies_at = None
    assert alive(log) == expected
    fill(log, random.Random(2), 5)
    expected = alive(log)
    one_pass(filesystem, log_dir, log, LATER)
    assert alive(log) == expected
    assert not [name for name in filesystem.list(log.directory) if name.endswith((".cleaned", ".swap"))]


def ready_to_swap(log: Log) -> Compaction:
    compaction = plan.begin(log, LATER, log.log_end_offset)
    assert compaction is not None
    compaction.run()
    return compaction


def test_the_checkpoint_says_nothing_before_the_swap_is_on_the_disk() -> None:
    filesystem = MortalFilesystem()
    log_dir, log = history(filesystem)
    before = log.cleaned_offset
    compaction = ready_to_swap(log)
    for _ in plan.swap(log, compaction):
        assert log.cleaned_offset == before
    log_dir.checkpoint()
    assert log.cleaned_offset == before
    compaction.settle()
    plan.end(log, compaction)
    assert log.cleaned_offset > before


def test_a_log_cut_between_swap_and_checkpoint_is_not_called_clean() -> None:
    filesystem = MortalFilesystem()
    _, log = history(filesystem)
    before = log.cleaned_offset
    compaction = ready_to_swap(log)
    for _ in plan.swap(log, compaction):
        pass
    log.truncate_to(before + 1)
    plan.end(log, compaction)
    assert log.cleaned_offset <= before + 1


@pytest.mark.parametrize("change", ["truncated", "deleted"])
def test_what_was_clean_before_a_cut_is_not_believed_after_a_crash(change: str) -> None:
    filesystem = MortalFilesystem()
    log_dir, log = history(filesystem)
    cleaned = log.cleaned_offset
    assert cleaned > 3
    log_dir.note_offsets((TOPIC, 0))
    stale = log_dir.write_checkpoints, log_dir.begin_cleaner_checkpoint()
    if change == "truncated":
        log.truncate_to(3)
    else:
        log_dir.delete(TOPIC, 0, NOW)
    for write in stale:
        write()
    filesystem.crash(random.Random(0))
    del log_dir, log
    _, log = open_dir(filesystem)
    assert log.cleaned_offset <= 3


def test_a_pass_leaves_no_empty_segment_for_one_that_lost_its_tail() -> None:
    """Between the swap and the cleaner's checkpoint only this tells recovery that nothing is lost."""
    filesystem = MemoryFilesystem()
    log = open_dir(filesystem)[1]
    for number in range(24):
        log.append([build([Record(timestamp=NOW, key=b"k", value=b"%d" % number * 50)])], 0, NOW)
    compaction = plan.begin(log, LATER, log.log_end_offset)
    assert compaction is not None
    compaction.run()
    plan.finish(log, compaction)
    bases, end = list(log.segments.bases), log.log_end_offset
    assert len(bases) > 3 and all(segment.size_bytes for segment in log.segments)
    filesystem.kill()
    again = open_dir(filesystem)[1]
    assert (again.segments.bases, again.log_end_offset) == (bases, end)
