"""Compaction against a model: same keys, same latest values, offsets kept, and no harm from a crash at any step."""

import errno
import random
import tracemalloc
from dataclasses import replace
from hashlib import blake2b

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.batches import Batch, record
from support.logs import DIRECTORY, NOW, open_log, records_of, with_settings
from tailrace.errors import ErrorCode
from tailrace.log.compaction import plan
from tailrace.log.compaction.rewrite import Compaction, Pass, RewriteLimits
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.filesystem.pending_deletions import remove_paths
from tailrace.log.filesystem.port import join
from tailrace.log.log import Log
from tailrace.log.retention import delete_retention
from tailrace.records.compression import Codec, compress
from tailrace.records.record import Record, build

COMPACTED = with_settings(
    cleanup_policy="compact", segment_bytes=600, min_cleanable_dirty_ratio=0.01, delete_retention_ms=1000
)


def put(log: Log, *pairs: tuple[bytes | None, bytes | None], codec: Codec = Codec.NONE, **fields: int) -> None:
    records = [Record(timestamp=NOW, key=key, value=value) for key, value in pairs]
    (answer,) = log.append([build(records, compression=codec, **fields)], 0, NOW)  # type: ignore[arg-type]
    assert answer.error_code == 0


def compact(log: Log, now_ms: int = NOW, limits: RewriteLimits = RewriteLimits()) -> bool:  # noqa: B008
    compaction = plan.begin(log, now_ms, log.log_end_offset, limits)
    if compaction is None:
        return False
    compaction.run()
    plan.finish(log, compaction)
    return True


def latest(records: list[Record]) -> dict[bytes | None, tuple[int, bytes | None]]:
    return {record.key: (record.offset, record.value) for record in records}


def alive(records: list[Record]) -> dict[bytes | None, bytes | None]:
    return {key: value for key, (_, value) in latest(records).items() if value is not None}


def test_only_the_latest_value_of_a_key_stays_at_its_offset() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, COMPACTED)
    for number in range(60):
        put(log, (b"k%d" % (number % 3), b"%d" % number), (b"once%d" % number, b"x"))
    before = records_of(log)
    assert compact(log)
    after = records_of(log)
    assert latest(after) == latest(before) and len(after) < len(before)
    assert [record.offset for record in after] == sorted({record.offset for record in after})
    assert log.log_end_offset == 120 and log.log_start_offset == 0
    assert not compact(log)
    assert records_of(open_log(filesystem, COMPACTED)) == after


def test_a_log_of_few_keys_does_not_grow() -> None:
    log = open_log(MemoryFilesystem(), COMPACTED)
    sizes = []
    for number in range(400):
        put(log, (b"k%d" % (number % 5), b"v" * 50))
        if number % 40 == 39:
            compact(log)
            sizes.append(log.size_bytes)
    assert max(sizes) < 3 * COMPACTED.segment_bytes and len(log.segments.bases) < 12


def test_tombstones_go_after_delete_retention_ms() -> None:
    log = open_log(MemoryFilesystem(), COMPACTED)
    put(log, (b"gone", b"v"))
    log.roll()
    put(log, (b"gone", None))
    log.roll()
    put(log, (b"other", b"v"))
    assert compact(log, NOW)
    assert [(record.key, record.value) for record in records_of(log)] == [(b"gone", None), (b"other", b"v")]
    assert records_of(log)[0].timestamp == NOW
    log.roll()
    put(log, (b"more", b"v"))
    assert compact(log, NOW + 999) and records_of(log)[0].key == b"gone"
    log.roll()
    put(log, (b"more", b"w"))
    assert compact(log, NOW + 1000) and records_of(log)[0].key == b"other"


def test_a_producers_last_batch_stays_without_its_records() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, COMPACTED)
    for sequence in range(2):
        put(log, (b"k", b"%d" % sequence), producer_id=5, producer_epoch=0, base_sequence=sequence)
    log.roll()
    put(log, (b"k", b"last"))
    log.roll()
    put(log, (b"x", b"y"))
    compact(log)
    assert [record.value for record in records_of(log)] == [b"last", b"y"]
    for name in filesystem.list(DIRECTORY):
        if name.endswith(".snapshot"):
            filesystem.remove(join(DIRECTORY, name))
    assert open_log(filesystem, COMPACTED).producers.entries[5].batches[-1].last_sequence == 1


@pytest.mark.parametrize(
    ("changes", "high_watermark", "due"),
    [
        ({}, 99, True),
        ({"cleanup_policy": "delete"}, 99, False),
        ({"cleanup_policy": ("compact", "delete")}, 99, True),
        ({"min_compaction_lag_ms": 10**9}, 99, False),
        ({}, 0, False),
    ],
)
def test_a_pass_is_due_by_policy_lag_and_watermark(changes: dict[str, object], high_watermark: int, due: bool) -> None:
    log = open_log(MemoryFilesystem(), COMPACTED)
    put(log, (b"k", b"v"))
    log.roll()
    put(log, (b"k", b"w"))
    log.config = with_settings(**{**vars(COMPACTED), **changes})
    assert (plan.begin(log, NOW, high_watermark) is not None) == due


@pytest.mark.parametrize(("waited_ms", "due"), [(0, False), (999, False), (1000, True)])
def test_of_records_without_a_timestamp_the_files_time_is_their_age(waited_ms: int, due: bool) -> None:
    filesystem = MemoryFilesystem()
    filesystem.now_ms = NOW
    log = open_log(filesystem, with_settings(**{**vars(COMPACTED), "min_compaction_lag_ms": 1000}))
    for _ in range(2):
        log.append([build([Record(timestamp=-1, key=b"k", value=b"v")])], 0, NOW)
        log.roll()
    put(log, (b"k", b"w"))
    assert (plan.begin(log, NOW + waited_ms, 99) is not None) == due


def test_the_dirty_ratio_and_the_longest_lag_decide() -> None:
    log = open_log(MemoryFilesystem(), COMPACTED)
    for number in range(20):
        put(log, (b"%d" % number, b"v" * 40))
    log.roll()
    put(log, (b"tail", b"v"))
    compact(log)
    log.roll()
    put(log, (b"active", b"v"))
    log.config = with_settings(**{**vars(COMPACTED), "min_cleanable_dirty_ratio": 0.5})
    assert plan.begin(log, NOW, 99) is None
    log.config = with_settings(**{**vars(log.config), "max_compaction_lag_ms": 10})
    assert plan.begin(log, NOW + 11, 99) is not None


def test_a_small_key_map_takes_several_passes_to_the_same_end() -> None:
    log = open_log(MemoryFilesystem(), COMPACTED)
    for number in range(120):
        put(log, (b"k%d" % (number % 30), b"%d" % number))
    expected = latest(records_of(log))
    passes = 0
    while (compaction := plan.begin(log, NOW, log.log_end_offset, RewriteLimits(max_keys=10))) is not None:
        compaction.run()
        before = log.cleaned_offset
        plan.finish(log, compaction)
        assert log.cleaned_offset > before
        passes += 1
    assert passes > 2 and latest(records_of(log)) == expected
    assert len(records_of(log)) < 60


@pytest.mark.parametrize("change", ["truncate", "delete", "append"])
def test_changes_during_a_pass_win_over_it(change: str) -> None:
    log = open_log(MemoryFilesystem(), COMPACTED)
    for number in range(60):
        put(log, (b"k%d" % (number % 3), b"%d" % number))
    compaction = plan.begin(log, NOW, 60)
    assert isinstance(compaction, Compaction)
    compaction.run()
    if change == "truncate":
        log.truncate_to(10)
    elif change == "delete":
        log.advance_log_start_offset(30)
        delete_retention(log, NOW, 60)
    else:
        put(log, (b"k0", b"new"))
    expected = latest(records_of(log))
    plan.finish(log, compaction)
    assert latest(records_of(log)) == expected


RENAMES_AND_REMOVALS = 40


@pytest.mark.parametrize("power", [True, False])
@pytest.mark.parametrize("step", range(RENAMES_AND_REMOVALS))
def test_a_crash_at_any_step_of_a_swap_loses_and_resurrects_nothing(step: int, power: bool) -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, COMPACTED)
    choice = random.Random(step)
    for number in range(60):
        put(log, (b"k%d" % choice.randrange(8), None if choice.random() < 0.3 else b"%d" % number))
    log.flush()
    expected = alive(records_of(log))
    for now_ms in (NOW, NOW + 5000):
        compaction = plan.begin(log, now_ms, log.log_end_offset)
        if compaction is None:
            continue
        compaction.run()
        filesystem.fail_next("rename", InterruptedError(), after=step)
        try:
            plan.finish(log, compaction)
        except InterruptedError:
            break
    if power:
        filesystem.crash(choice)
    log = open_log(filesystem, COMPACTED, recovery_point=log.recovery_point)
    assert alive(records_of(log)) == expected and log.log_end_offset == 60
    while compact(log, NOW + 10_000):
        pass
    assert alive(records_of(log)) == expected


PAIRS = st.tuples(st.integers(0, 6), st.one_of(st.none(), st.binary(max_size=30)))
ACTIONS = st.one_of(
    st.tuples(st.just("put"), st.lists(PAIRS, min_size=1, max_size=5), st.sampled_from(list(Codec))),
    st.tuples(st.just("compact"), st.integers(0, 3000), st.sampled_from([2, 10_000])),
    st.tuples(st.just("roll")),
    st.tuples(st.just("reopen")),
    st.tuples(st.just("crash"), st.integers(0, 2**16)),
)


class Ledger:
    """Everything that was ever put, against which a log is held."""

    def __init__(self) -> None:
        self.rows: list[tuple[bytes, bytes | None]] = []  # by offset
        self.put_ms: list[int] = []

    def put(self, pairs: list[tuple[bytes, bytes | None]], now_ms: int) -> None:
        self.rows += pairs
        self.put_ms += [now_ms] * len(pairs)

    def check(self, log: Log, now_ms: int) -> None:
        records = records_of(log)
        offsets = [record.offset for record in records]
        assert offsets == sorted(set(offsets)) and log.log_end_offset == len(self.rows)
        assert all((record.key, record.value) == self.rows[record.offset] for record in records)
        last = {key: offset for offset, (key, _) in enumerate(self.rows)}
        there = set(offsets)
        for key, offset in last.items():
            young = now_ms < self.put_ms[offset] + COMPACTED.delete_retention_ms
            if self.rows[offset][1] is not None or young:
                assert offset in there, key
            else:  # the tombstone may be gone, and then with it all that it hid
                assert offset in there or not any(record.key == key for record in records)


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTIONS, max_size=40))
def test_any_history_keeps_what_a_dictionary_keeps(history: list[tuple[object, ...]]) -> None:
    filesystem = MemoryFilesystem()
    log, now_ms, ledger = open_log(filesystem, COMPACTED), NOW, Ledger()
    for action in history:
        if action[0] == "put":
            pairs = [(b"%d" % key, value) for key, value in action[1]]  # type: ignore[attr-defined]
            put(log, *pairs, codec=action[2])  # type: ignore[arg-type]
            ledger.put(pairs, now_ms)
        elif action[0] == "compact":
            now_ms += action[1]  # type: ignore[operator]
            compact(log, now_ms, RewriteLimits(max_keys=action[2]))  # type: ignore[arg-type]
        elif action[0] == "roll":
            log.roll()
        else:
            if action[0] == "crash":
                log.flush()
                filesystem.crash(random.Random(action[1]))  # type: ignore[arg-type]
            cleaned = log.cleaned_offset
            log = open_log(filesystem, COMPACTED, recovery_point=log.recovery_point, cleaned_offset=cleaned)
        ledger.check(log, now_ms)


def test_keyless_records_are_refused_with_their_places() -> None:
    log = open_log(MemoryFilesystem(), COMPACTED)
    batch = build([Record(timestamp=NOW, key=key, value=b"v") for key in (b"k", None, b"", None)])
    (answer,) = log.append([batch], 0, NOW)
    assert (answer.error_code, answer.record_errors) == (ErrorCode.INVALID_RECORD, (1, 3))
    assert log.log_end_offset == 0


@pytest.mark.parametrize(
    ("records", "code", "blamed"),
    [
        (((None, NOW), (b"k", NOW - 9)), ErrorCode.INVALID_TIMESTAMP, (0, 1)),
        (((b"k", NOW), (None, NOW - 9)), ErrorCode.INVALID_RECORD, (1,)),
        (((b"k", NOW), (None, NOW + 9)), ErrorCode.INVALID_RECORD, (1,)),
        (((b"k", NOW + 9), (None, NOW + 9), (None, NOW)), ErrorCode.INVALID_TIMESTAMP, (0, 1, 2)),
    ],
)
def test_of_keys_and_times_kafka_asks_in_this_order(
    records: tuple[tuple[bytes | None, int], ...], code: ErrorCode, blamed: tuple[int, ...]
) -> None:
    """LogValidator: every record has one error, its key's first; any wrong time makes it INVALID_TIMESTAMP."""
    config = replace(COMPACTED, message_timestamp_before_max_ms=5, message_timestamp_after_max_ms=5)
    log = open_log(MemoryFilesystem(), config)
    (answer,) = log.append([build([Record(timestamp=time, key=key) for key, time in records])], 0, NOW)
    assert (answer.error_code, answer.record_errors) == (code, blamed)


def test_a_batch_of_nonsense_is_left_alone() -> None:
    log = open_log(MemoryFilesystem(), COMPACTED)
    nonsense = bytearray(Batch(attributes=Codec.LZ4, payload=b"not lz4").encode())
    log.append([nonsense], 0, NOW, from_client=False)
    put(log, (b"k", b"old"))
    put(log, (b"k", b"new"))
    log.roll()
    put(log, (b"active", b"v"))
    assert compact(log)
    assert log.read(0, 10_000).read().startswith(bytes(nonsense))
    assert [record.value for record in records_of(log, 1)] == [b"new", b"v"]


def test_no_key_is_taken_for_another_though_it_is_the_digest_of_that() -> None:
    log = open_log(MemoryFilesystem(), COMPACTED)
    long = b"a key of more than sixteen bytes"
    digests = [(blake2b(long, digest_size=size).digest(), b"v") for size in range(1, 33)]
    put(log, (long, b"kept"))
    for digest in digests:
        put(log, digest)
    log.roll()
    put(log, (b"active", b"v"))
    compact(log)
    assert alive(records_of(log)) == dict([(long, b"kept"), *digests, (b"active", b"v")])


def test_a_disk_that_has_no_room_for_all_copies_is_cleaned_piece_by_piece_and_keeps_what_is_spared() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, COMPACTED)
    for number in range(200):
        put(log, (b"k%d" % (number % 40), b"%d" % number * 20))
    before, size_bytes = records_of(log), log.size_bytes
    disk_bytes, spare_bytes = size_bytes + 2500, 1000

    def usable_bytes() -> int:
        return disk_bytes - sum(len(filesystem.content(path)) for path in filesystem.files() if ".log" in path)

    limits, passes, least = RewriteLimits(step_bytes=200, spare_bytes=spare_bytes), 0, disk_bytes
    while (compaction := plan.begin(log, NOW, log.log_end_offset, limits)) is not None:
        passes += 1
        work = Pass.open(filesystem, compaction.job, usable_bytes)
        for _ in work.steps():
            least = min(least, usable_bytes())
        compaction.take(work.outcome())
        plan.finish(log, compaction)
        remove_paths(filesystem, log.segments.pending_deletions.due(NOW + 10**9))
        assert alive(records_of(log)) == alive(before) and latest(records_of(log)) == latest(before)
        assert not [path for path in filesystem.files() if path.endswith(".cleaned")]
    assert 1 < passes < 20 and log.size_bytes < size_bytes / 2 and log.cleaned_offset == log.segments.active.base_offset
    assert least > spare_bytes - 600  # it is looked at after each step and each index


def test_copies_that_free_nothing_are_not_made_again_and_again_on_a_disk_with_no_room_for_the_others() -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, COMPACTED)
    for number in range(100):  # the first half has no garbage
        put(log, (b"k%d" % min(number, 50 + number % 5), b"%d" % number * 20))
    before, names = records_of(log), sorted(filesystem.files())
    used = sum(len(filesystem.content(path)) for path in names)

    def usable_bytes() -> int:
        return used + 2500 - sum(len(filesystem.content(path)) for path in filesystem.files())

    # As large as a segment, so that none is cleaned together with its neighbour.
    compaction = plan.begin(log, NOW, log.log_end_offset, RewriteLimits(step_bytes=200, spare_bytes=1000))
    assert compaction is not None
    work = Pass.open(filesystem, compaction.job, usable_bytes)
    with pytest.raises(OSError, match="a cleaned copy would leave"):
        for _ in work.steps():
            pass
    assert sorted(filesystem.files()) == names and records_of(log) == before


@pytest.mark.parametrize("when", ["before", "in the middle", "the disk says so"])
def test_a_pass_without_room_for_a_single_copy_leaves_nothing_behind(when: str) -> None:
    filesystem = MemoryFilesystem()
    log = open_log(filesystem, COMPACTED)
    for number in range(60):
        put(log, (b"k%d" % (number % 30), b"%d" % number * 20))
    before, names = records_of(log), sorted(filesystem.files())
    compaction = plan.begin(log, NOW, log.log_end_offset, RewriteLimits(step_bytes=200, spare_bytes=10))
    assert compaction is not None
    asked = iter([20] if when == "in the middle" else [])
    work = Pass.open(filesystem, compaction.job, (lambda: 99) if when == "the disk says so" else lambda: next(asked, 9))
    if when == "the disk says so":
        filesystem.fail_all(OSError(errno.ENOSPC, "full"), ["write"])
    with pytest.raises(OSError) as refused:
        for _ in work.steps():
            pass
    assert refused.value.errno == errno.ENOSPC
    assert sorted(filesystem.files()) == names and records_of(log) == before


@pytest.mark.parametrize("value", [b"", None], ids=["values", "tombstones"])
@pytest.mark.parametrize("first", [b"k", b"superseded"])
def test_a_batch_of_many_records_costs_the_cleaner_no_object_for_each(first: bytes, value: bytes | None) -> None:
    """Five kilobytes of zstd may hold millions of records."""
    count, log = 5_000, open_log(MemoryFilesystem(), replace(COMPACTED, segment_bytes=100_000))
    plain = record(0, value, first) + record(0, value, b"k") * (count - 1)
    batch = Batch(attributes=Codec.ZSTD, payload=compress(Codec.ZSTD, plain), base_timestamp=NOW)
    encoded = bytearray(replace(batch, record_count=count, last_offset_delta=count - 1).encode())
    (answer,) = log.append([encoded], 0, NOW, from_client=False)  # no client may, as its offsets do not count up
    assert answer.error_code == 0
    put(log, (b"superseded", b"v"))
    log.roll()
    put(log, (b"active", b"v"))
    tracemalloc.start()
    try:
        assert compact(log)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 6 * len(plain)
    assert len(records_of(log)) == count + (3 if first == b"k" else 2) - 1


@pytest.mark.parametrize("time", [-(2**63), -1, 2**63 - 1])
@pytest.mark.parametrize("value", [b"v", None])
def test_a_time_that_no_header_can_hold_is_what_java_makes_of_it(time: int, value: bytes | None) -> None:
    """The deltas are the producer's, and a sum may be too large for 64 bits."""
    log, base = open_log(MemoryFilesystem(), COMPACTED), -(2**63) if time < 0 else 2**63 - 1
    odd = [record(0, b"v", b"k"), record(1, value, b"odd", timestamp_delta=time)]
    (answer,) = log.append([bytearray(Batch(records=odd, base_timestamp=base).encode())], 0, NOW, from_client=False)
    assert answer.error_code == 0
    put(log, (b"k", b"new"))
    log.roll()
    put(log, (b"active", b"v"))
    assert compact(log)
    assert [(record.key, record.value) for record in records_of(log)] == [
        (b"odd", value), (b"k", b"new"), (b"active", b"v")
    ]  # fmt: skip
