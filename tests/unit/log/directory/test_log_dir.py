"""A log dir: lock, identity, lazy partitions, checkpoints, deletion, the clean-shutdown marker."""

import errno
import gc
import os
import random
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from support.logs import NOW, append, records_of, values_of, with_settings
from tailrace.log.compaction import plan
from tailrace.log.directory.log_dir import LogDir, LogDirRefused
from tailrace.log.directory.start import LastShutdown
from tailrace.log.filesystem import checkpoints
from tailrace.log.filesystem.checkpoints import parse_offsets
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.filesystem.pending_deletions import remove_paths
from tailrace.log.filesystem.port import Filesystem
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.log.log import Log
from tailrace.records.record import Record, build

TOPIC_ID = UUID(int=5)
OTHER_ID = UUID(int=6)
ROOT = "/logs"


def open_dir(filesystem: Filesystem, root: str = ROOT, node_id: int = 0, cluster_id: str = "c") -> LogDir:
    return LogDir.open(filesystem, root, node_id=node_id, cluster_id=cluster_id, now_ms=NOW)


def test_a_second_opener_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    filesystem = RealFilesystem()
    first = open_dir(filesystem, str(tmp_path))
    with pytest.raises(LogDirRefused, match="in use by another process"):
        open_dir(filesystem, str(tmp_path))
    first.close()
    open_dir(filesystem, str(tmp_path)).release()


@pytest.mark.parametrize(
    ("node_id", "cluster_id", "message"),
    [(1, "c", "belongs to node.id 0, not to 1"), (0, "other", "belongs to cluster.id c, not to other")],
)
def test_another_nodes_or_clusters_directory_is_refused(node_id: int, cluster_id: str, message: str) -> None:
    filesystem = MemoryFilesystem()
    open_dir(filesystem).release()
    with pytest.raises(LogDirRefused, match=message):
        open_dir(filesystem, node_id=node_id, cluster_id=cluster_id)


def test_the_directory_id_stays() -> None:
    filesystem = MemoryFilesystem()
    first = open_dir(filesystem)
    first.release()
    assert open_dir(filesystem).directory_id == first.directory_id != UUID(int=0)


def test_a_clean_shutdown_leaves_a_marker_with_the_broker_epoch_for_one_start() -> None:
    filesystem = MemoryFilesystem()
    assert not open_dir(filesystem).last_shutdown.clean
    filesystem.kill()
    open_dir(filesystem).close(broker_epoch=42, metadata_offset=9)
    marker = b'{"version":0,"brokerEpoch":42,"metadataOffset":9}'
    assert bytes(filesystem.content("/logs/.kafka_cleanshutdown")) == marker
    again = open_dir(filesystem)
    assert again.last_shutdown == LastShutdown(clean=True, broker_epoch=42, metadata_offset=9)
    filesystem.kill()
    crashed = open_dir(filesystem)
    assert crashed.last_shutdown == LastShutdown()


def test_partitions_are_found_without_being_opened() -> None:
    filesystem = MemoryFilesystem()
    logs = open_dir(filesystem)
    for partition in range(3):
        append(logs.create("a-topic-1", partition, TOPIC_ID, with_settings()), b"x" * 50)
    logs.close()
    logs = open_dir(filesystem)
    assert logs.partitions() == logs.unopened() == [("a-topic-1", 0), ("a-topic-1", 1), ("a-topic-1", 2)]
    assert logs.topic_id("a-topic-1", 2) == TOPIC_ID and logs.topic_id("a-topic-1", 3) is None
    assert logs.size_bytes("a-topic-1", 1) > 100 and logs.size_bytes("none", 0) == 0
    assert not logs.open_logs()
    log = logs.log("a-topic-1", 1)
    assert log is not None and values_of(log) == [b"x" * 50] and logs.log("none", 0) is None
    assert list(logs.open_logs()) == [("a-topic-1", 1)]


def test_checkpoints_bring_back_start_offsets_watermarks_and_what_compaction_saw() -> None:
    filesystem = MemoryFilesystem()
    logs = open_dir(filesystem)
    log = logs.create("t", 0, TOPIC_ID, with_settings())
    append(log, b"a", b"b", b"c")
    log.advance_log_start_offset(2)
    log.cleaned_offset = 1
    logs.high_watermarks["t", 0] = 3
    log.flush()
    logs.checkpoint()
    assert bytes(filesystem.content("/logs/recovery-point-offset-checkpoint")) == b"0\n1\nt 0 3\n"
    filesystem.kill()
    logs = open_dir(filesystem)
    again = logs.create("t", 0, TOPIC_ID, with_settings())
    assert (again.log_start_offset, again.recovery_point, again.cleaned_offset) == (2, 3, 1)
    assert logs.high_watermarks == {("t", 0): 3} and [record.offset for record in records_of(again)] == [2]


def test_records_that_replace_deleted_ones_after_a_cut_are_there_after_a_crash() -> None:
    """The log start went back with the cut, which only an unclean election asks for."""
    filesystem = MemoryFilesystem()
    log_dir = open_dir(filesystem)
    log = log_dir.create("t", 0, TOPIC_ID, with_settings())
    append(log, *[b"%d" % n for n in range(6)])
    log.advance_log_start_offset(5)
    log_dir.begin_log_start_checkpoint(("t", 0), log)()
    log.truncate_to(2)
    append(log, b"new", b"new too")
    log.flush()
    filesystem.crash(random.Random(1))
    found = open_dir(filesystem).log("t", 0)
    assert found is not None and [(r.offset, r.value) for r in records_of(found)] == [(0, b"new"), (1, b"new too")]


def test_a_copy_that_was_given_up_leaves_no_log_start_to_a_later_log_of_its_name() -> None:
    filesystem = MemoryFilesystem()
    log_dir = open_dir(filesystem)
    copy = log_dir.futures.open("t", 0, TOPIC_ID, with_settings(), NOW)
    append(copy, b"a", b"b", b"c")
    copy.advance_log_start_offset(2)
    log_dir.begin_log_start_checkpoint(("t", 0), copy)()
    log_dir.futures.drop("t", 0, NOW)
    log = log_dir.create("t", 0, OTHER_ID, with_settings())
    append(log, b"new")
    assert values_of(log) == [b"new"] and log.log_start_offset == 0


def recovery_points(filesystem: MemoryFilesystem) -> dict[tuple[str, int], int]:
    return parse_offsets(bytes(filesystem.content("/logs/recovery-point-offset-checkpoint")))


def flushed(filesystem: MemoryFilesystem) -> tuple[LogDir, Log]:
    """Ten records that are on the disk, and the checkpoint says so."""
    logs = open_dir(filesystem)
    log = logs.create("t", 0, TOPIC_ID, with_settings())
    for _ in range(10):
        append(log, b"v")
    log.flush()
    logs.checkpoint()
    assert recovery_points(filesystem) == {("t", 0): 10}
    return logs, log


def test_a_cut_below_the_recovery_point_lowers_it_on_the_disk_at_once() -> None:
    """What is appended after the cut must not be believed unchecked; an older checkpoint on its way comes too late."""
    filesystem = MemoryFilesystem()
    logs, log = flushed(filesystem)
    for key in logs.open_logs():
        logs.note_offsets(key)
    on_its_way = logs.write_checkpoints
    log.truncate_to(4)
    on_its_way()
    assert recovery_points(filesystem) == {("t", 0): 4}
    logs.checkpoint()
    assert recovery_points(filesystem) == {("t", 0): 4}


def test_a_cut_below_the_recovery_point_that_cannot_be_noted_does_not_happen() -> None:
    filesystem = MemoryFilesystem()
    _, log = flushed(filesystem)
    filesystem.fail_next("write", OSError(errno.ENOSPC, "full"))
    with pytest.raises(OSError, match="full"):
        log.truncate_to(4)
    assert log.log_end_offset == 10


def test_a_flush_that_began_before_a_cut_does_not_raise_the_recovery_point() -> None:
    filesystem = MemoryFilesystem()
    _, log = flushed(filesystem)
    append(log, b"v")
    begun = log.begin_flush(0, everything=True)
    assert begun is not None
    begun.run()
    log.truncate_to(4)
    for _ in range(10):
        append(log, b"w")
    log.finish_flush(begun)
    assert log.recovery_point == 4


def test_a_deleted_partitions_recovery_point_is_not_believed_of_a_later_one() -> None:
    filesystem = MemoryFilesystem()
    logs, _ = flushed(filesystem)
    logs.delete("t", 0, NOW)
    logs.create("t", 0, OTHER_ID, with_settings())
    assert recovery_points(filesystem) == {} and not logs.unsettled


def test_to_take_a_partition_away_waits_for_no_disk_and_to_settle_writes_each_checkpoint_once() -> None:
    filesystem = MemoryFilesystem()
    logs, _ = flushed(filesystem)
    append(logs.create("t", 1, TOPIC_ID, with_settings()), b"a")
    for key in logs.open_logs():
        logs.note_offsets(key)
    on_its_way = logs.write_checkpoints
    filesystem.fail_next("sync", OSError(errno.EIO, "broken"))
    filesystem.fail_next("sync_directory", OSError(errno.EIO, "broken"))
    for partition in (0, 1):
        logs.delete("t", partition, NOW)
    assert logs.unsettled
    with pytest.raises(OSError, match="broken"):
        logs.settle()
    with pytest.raises(OSError, match="broken"):
        logs.settle()
    assert logs.unsettled
    logs.settle()
    assert recovery_points(filesystem) == {} and not logs.unsettled
    on_its_way()  # noted before they went
    assert recovery_points(filesystem) == {}


def test_a_crash_after_a_partition_was_taken_away_leaves_all_of_it_or_nothing_that_is_believed() -> None:
    filesystem = MemoryFilesystem()
    logs, log = flushed(filesystem)
    log.advance_log_start_offset(7)
    logs.high_watermarks["t", 0] = 10
    logs.checkpoint()
    logs.delete("t", 0, NOW)
    assert recovery_points(filesystem) == {("t", 0): 10}
    filesystem.kill()  # the directory's new name was kept
    logs = open_dir(filesystem)
    assert logs.partitions() == [] and logs.high_watermarks == {} and logs.unsettled
    again = logs.create("t", 0, OTHER_ID, with_settings())
    assert (again.log_start_offset, again.recovery_point, recovery_points(filesystem)) == (0, 0, {})


def test_damaged_checkpoints_cost_time_but_no_data() -> None:
    filesystem = MemoryFilesystem()
    logs = open_dir(filesystem)
    append(logs.create("t", 0, TOPIC_ID, with_settings()), b"a")
    logs.close()
    for name in ("recovery-point", "log-start", "replication", "cleaner"):
        filesystem.content(f"/logs/{name}-offset-checkpoint")[:] = b"nonsense"
        filesystem.remove(f"/logs/{name}-offset-checkpoint.twin")
    logs = open_dir(filesystem)
    log = logs.log("t", 0)
    assert log is not None and values_of(log) == [b"a"] and not logs.last_shutdown.clean


@pytest.mark.parametrize("damaged", [False, True])
def test_what_was_compacted_once_keeps_its_gaps_when_its_policy_is_another(damaged: bool) -> None:
    """Also where the checkpoint that says so is lost, and with it every recovery point."""
    filesystem, settings = MemoryFilesystem(), with_settings(segment_bytes=200, min_cleanable_dirty_ratio=0.0)
    logs = open_dir(filesystem)
    log = logs.create("t", 0, TOPIC_ID, replace(settings, cleanup_policy="compact"))
    for value in range(12):
        log.append([build([Record(timestamp=NOW, key=b"k%d" % (value % 4), value=b"v")])], 0, NOW)
    compaction = plan.begin(log, NOW, log.log_end_offset)
    assert compaction is not None
    compaction.run()
    plan.finish(log, compaction)
    left = [record.offset for record in records_of(log)]
    logs.begin_cleaner_checkpoint()()
    assert len(left) < 12
    filesystem.kill()
    if damaged:
        filesystem.content("/logs/cleaner-offset-checkpoint")[:] = b"nonsense"
        filesystem.remove("/logs/cleaner-offset-checkpoint.twin")
    again = open_dir(filesystem).create("t", 0, TOPIC_ID, replace(settings, cleanup_policy="delete"))
    assert [record.offset for record in records_of(again)] == left and again.recovery_result.cut_bytes == 0


def test_an_empty_checkpoint_of_kafkas_cleaner_is_no_damage_and_without_recovery_points_all_is_checked() -> None:
    filesystem = MemoryFilesystem()
    logs = open_dir(filesystem)
    append(logs.create("t", 0, TOPIC_ID, with_settings()), b"a")
    logs.close()
    filesystem.content("/logs/cleaner-offset-checkpoint")[:] = b""
    logs = open_dir(filesystem)
    assert logs.last_shutdown.clean
    logs.close()
    filesystem.content("/logs/recovery-point-offset-checkpoint")[:] = b""
    filesystem.remove("/logs/recovery-point-offset-checkpoint.twin")
    logs = open_dir(filesystem)
    log = logs.log("t", 0)
    assert log is not None and (log.recovery_point, values_of(log)) == (0, [b"a"])


def test_a_deleted_partition_is_gone_at_once_and_its_files_after_the_delay() -> None:
    filesystem = MemoryFilesystem()
    logs = open_dir(filesystem)
    append(logs.create("t", 0, TOPIC_ID, with_settings(file_delete_delay_ms=100)), b"a")
    logs.delete("t", 0, NOW)
    assert logs.partitions() == [] and logs.log("t", 0) is None
    assert append(logs.create("t", 0, UUID(int=6), with_settings()), b"new").base_offset == 0
    (pending_deletion,) = [name for name in filesystem.list(ROOT) if name.endswith("-delete")]
    assert pending_deletion.startswith("t-0.") and logs.pending_deletions.due(NOW + 99) == []
    remove_paths(filesystem, logs.pending_deletions.due(NOW + 100))
    assert pending_deletion not in filesystem.list(ROOT) and logs.topic_id("t", 0) == UUID(int=6)


@pytest.mark.parametrize(
    "damaged",
    [b"cluster.id=\xe3\n", b"cluster.id=c\ndirectory.id=short\nnode.id=0\n", b"hello\n\0\1", b"version=1\n", b"#\n"],
)
def test_a_damaged_meta_properties_is_refused_in_a_sentence(damaged: bytes) -> None:
    filesystem = MemoryFilesystem()
    open_dir(filesystem).close()
    filesystem.content(f"{ROOT}/meta.properties")[:] = damaged
    with pytest.raises(LogDirRefused, match=r"/logs/meta.properties is damaged"):
        open_dir(filesystem)


def test_a_directory_in_a_newer_format_is_refused_and_stays_as_it_is() -> None:
    filesystem = MemoryFilesystem()
    open_dir(filesystem).close()
    content = filesystem.content(f"{ROOT}/meta.properties")
    content[:] = content.replace(b"version=1", b"version=2")
    before = {name: bytes(filesystem.content(f"{ROOT}/{name}")) for name in filesystem.list(ROOT)}
    with pytest.raises(LogDirRefused, match=r"/logs has format version 2, and this version of Tailrace knows 1"):
        open_dir(filesystem)
    assert {name: bytes(filesystem.content(f"{ROOT}/{name}")) for name in filesystem.list(ROOT)} == before


@pytest.mark.parametrize(
    ("mark", "where"), [(b"id\n/new\n\nt-0\n", "/new"), (b"", "another one"), (b"\xe3", "another one")]
)
def test_a_directory_that_was_moved_away_is_refused_whatever_is_left_of_the_mark(mark: bytes, where: str) -> None:
    filesystem = MemoryFilesystem()
    open_dir(filesystem).close()
    filesystem.remove(f"{ROOT}/meta.properties")
    filesystem.open(f"{ROOT}/.moved-to", create=True).pwritev([mark], 0)
    with pytest.raises(LogDirRefused, match=f"was moved: {where} has it now"):
        open_dir(filesystem)


@pytest.mark.parametrize(
    "content",
    [b"", bytes(90), b"cluster.id=c\nnode.id=0\nversion=1\n", b"directory.id=AAAAAAAAAAAAAAAAAAAAAA\ncluster.id=c\n"],
)
def test_a_directory_without_an_id_gets_one_that_stays(content: bytes) -> None:
    filesystem = MemoryFilesystem()
    open_dir(filesystem).close()
    filesystem.content(f"{ROOT}/meta.properties")[:] = content
    first = open_dir(filesystem)
    first.close()
    again = open_dir(filesystem)
    assert again.readable and again.directory_id == first.directory_id
    again.close()
    with pytest.raises(LogDirRefused, match=r"belongs to node.id 0, not to 3"):
        open_dir(filesystem, node_id=3)


def test_a_log_of_another_topic_of_that_name_is_put_aside_and_kept() -> None:
    filesystem = MemoryFilesystem()
    logs = open_dir(filesystem)
    strays = logs.findings.strays
    append(logs.create("t", 0, TOPIC_ID, with_settings()), b"a")
    logs.claim("t", 0, TOPIC_ID)
    assert strays == []
    logs.claim("t", 0, UUID(int=2**100))
    assert not logs.holds("t", 0)
    assert append(logs.create("t", 0, UUID(int=2**100), with_settings()), b"new").base_offset == 0
    ((key, path, _),) = strays
    assert key == ("t", 0) and path.startswith(f"{ROOT}/t-0.") and path.endswith("-stray")
    logs.close()
    again = open_dir(filesystem)
    assert again.partitions() == [("t", 0)] and again.pending_deletions.due(NOW + 10**9) == []
    assert bytes(filesystem.content(f"{path}/00000000000000000000.log")).endswith(b"a\x00")


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_flushed_records_are_not_taken_for_those_of_the_next_topic_of_that_name(seed: int, killed: bool) -> None:
    filesystem = MemoryFilesystem()
    logs = open_dir(filesystem)
    log = logs.create("t", 0, TOPIC_ID, with_settings())
    append(log, b"of a topic that is deleted while the broker is away")
    if killed:
        filesystem.kill()
        logs = open_dir(filesystem)
        log = logs.create("t", 0, TOPIC_ID, with_settings())
    log.flush()
    logs.checkpoint()
    filesystem.crash(random.Random(seed))
    logs = open_dir(filesystem)
    logs.claim("t", 0, OTHER_ID)
    assert values_of(logs.create("t", 0, OTHER_ID, with_settings())) == []


def test_a_log_without_partition_metadata_is_flushed_all_the_same() -> None:
    filesystem = MemoryFilesystem()
    logs = open_dir(filesystem)
    append(logs.create("t", 0, TOPIC_ID, with_settings()), b"a")
    filesystem.remove(f"{ROOT}/t-0/partition.metadata")
    filesystem.kill()
    log = open_dir(filesystem).log("t", 0)
    assert log is not None
    log.flush()
    assert log.recovery_point == 1


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_in_partition_metadata_costs_no_log(bit: int) -> None:
    intact = checkpoints.format_partition_metadata(TOPIC_ID)
    for place in range(len(intact)):
        filesystem = MemoryFilesystem()
        logs = open_dir(filesystem)
        append(logs.create("t", 0, TOPIC_ID, with_settings()), b"a")
        logs.close()
        filesystem.content(f"{ROOT}/t-0/partition.metadata")[place] ^= 1 << bit
        logs = open_dir(filesystem)
        logs.claim("t", 0, TOPIC_ID)
        assert values_of(logs.create("t", 0, TOPIC_ID, with_settings())) == [b"a"]
        assert logs.topic_id("t", 0) == TOPIC_ID


def test_a_flush_that_ends_after_its_log_was_deleted_leaves_the_new_log_of_that_name_alone() -> None:
    filesystem = MemoryFilesystem()
    logs = open_dir(filesystem)
    old = logs.create("t", 0, TOPIC_ID, with_settings())
    append(old, b"a")
    old.note_epoch(7, 1)
    flush = old.begin_flush(NOW, everything=True)
    assert flush is not None
    logs.delete("t", 0, NOW)
    new = logs.create("t", 0, UUID(int=6), with_settings())
    flush.run()
    assert "leader-epoch-checkpoint" not in filesystem.list(new.directory)


def open_below(root: Path) -> list[str]:
    """What this process has open in a directory, also after it was removed."""
    links = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [link for link in links if link.startswith(f"{root}/t-")]


@pytest.mark.parametrize("future", [False, True])
def test_the_space_of_a_deleted_partition_is_free_without_a_garbage_collection(tmp_path: Path, future: bool) -> None:
    logs = open_dir(RealFilesystem(), str(tmp_path))
    gc.collect()
    gc.disable()
    try:
        if future:
            log = logs.futures.open("t", 0, TOPIC_ID, with_settings(), NOW)
        else:
            log = logs.create("t", 0, TOPIC_ID, with_settings())
        for _ in range(3):
            append(log, b"x" * 500)
            records_of(log)
        held = log.read(0, 1000)
        assert len(log.segments) > 1 and len(open_below(tmp_path)) > 1
        if future:
            logs.futures.drop("t", 0, NOW)
            log.abandon()
        else:
            logs.delete("t", 0, NOW)
        assert len(open_below(tmp_path)) == 1 and held.read()
        del held
        assert open_below(tmp_path) == []
    finally:
        gc.enable()
    logs.release()


def test_a_copy_that_takes_over_remembers_producers_as_long_as_was_said_meanwhile() -> None:
    logs = open_dir(MemoryFilesystem())
    future = logs.futures.open("t", 0, TOPIC_ID, with_settings(), NOW)
    logs.set_producer_id_expiration(5)
    logs.adopt_future("t", 0, future, 0)
    assert future.producer_id_expiration_ms == 5


def test_what_was_being_deleted_before_a_crash_is_deleted_after_it() -> None:
    filesystem = MemoryFilesystem()
    logs = open_dir(filesystem)
    append(logs.create("t", 0, TOPIC_ID, with_settings()), b"a")
    logs.delete("t", 0, NOW)
    filesystem.kill()
    logs = open_dir(filesystem)
    assert logs.partitions() == []
    remove_paths(filesystem, logs.pending_deletions.due(NOW))
    assert not [name for name in filesystem.list(ROOT) if name.endswith("-delete")]


def test_retention_renames_segments_and_removes_them_after_the_delay() -> None:
    filesystem = MemoryFilesystem()
    logs = open_dir(filesystem)
    settings = with_settings(segment_bytes=150, retention_ms=1000, file_delete_delay_ms=50)
    log = logs.create("t", 0, TOPIC_ID, settings)
    for number in range(5):
        append(log, b"x" * 40, timestamp=NOW + number * 500)
    later = NOW + 2200
    logs.retention.apply(later)
    assert log.log_start_offset == 0, "nothing is committed yet"
    logs.high_watermarks["t", 0] = 5
    logs.retention.apply(later)
    assert (log.log_start_offset, len(records_of(log))) == (3, 2)
    assert logs.pending_deletions.due(later + 49) == []
    pending_deletion = logs.pending_deletions.due(later + 50)
    assert {path[-len(".log.deleted") :] for path in pending_deletion} >= {".log.deleted"}
    remove_paths(filesystem, pending_deletion)
    assert not [name for name in filesystem.list("/logs/t-0") if name.endswith(".deleted")]
    append(log, b"next")
    assert log.log_end_offset == 6


def test_a_clock_that_is_set_back_keeps_deleted_files_no_longer_than_one_delay_more() -> None:
    filesystem = MemoryFilesystem()
    logs = open_dir(filesystem)
    settings = with_settings(segment_bytes=150, retention_bytes=150, file_delete_delay_ms=50)
    append(logs.create("gone", 0, UUID(int=7), settings), b"a")
    logs.delete("gone", 0, NOW)
    log = logs.create("t", 0, TOPIC_ID, settings)
    for _ in range(5):
        append(log, b"x" * 40)
    logs.high_watermarks["t", 0] = 5
    logs.retention.apply(NOW)
    assert log.log_start_offset > 0
    back = NOW - 10 * 3_600_000
    assert logs.pending_deletions.due(back) == [], "a reader of them has the delay"
    remove_paths(filesystem, logs.pending_deletions.due(back + 50))
    names = [*filesystem.list(ROOT), *filesystem.list("/logs/t-0")]
    assert not [name for name in names if name.endswith(("-delete", ".deleted"))]


def test_even_the_active_segment_expires_and_offsets_go_on() -> None:
    logs = open_dir(MemoryFilesystem())
    log = logs.create("t", 0, TOPIC_ID, with_settings(retention_ms=1000))
    append(log, b"old", timestamp=NOW)
    logs.high_watermarks["t", 0] = 1
    logs.retention.apply(NOW + 1001)
    assert (log.log_start_offset, log.log_end_offset, log.segments.bases) == (1, 1, [1])
    assert append(log, b"new").base_offset == 1


def test_deleted_records_take_whole_segments_along_at_the_next_retention() -> None:
    logs = open_dir(MemoryFilesystem())
    log = logs.create("t", 0, TOPIC_ID, with_settings(segment_bytes=150, cleanup_policy="compact"))
    for _ in range(5):
        log.append([bytearray()], 0, NOW)
        append_keyed(log)
    log.advance_log_start_offset(3)
    logs.high_watermarks["t", 0] = log.log_end_offset
    logs.retention.apply(NOW)
    assert log.segments.bases[0] == 3


def append_keyed(log: object) -> None:
    from tailrace.log.log import Log
    from tailrace.records.record import Record, build

    assert isinstance(log, Log)
    (answer,) = log.append([build([Record(timestamp=NOW, key=b"k", value=b"x" * 40)])], 0, NOW)
    assert answer.error_code == 0


def test_flush_messages_and_flush_ms_ask_for_a_flush() -> None:
    logs = open_dir(MemoryFilesystem())
    log = logs.create("t", 0, TOPIC_ID, with_settings(flush_messages=3))
    append(log, b"a", b"b")
    assert log.begin_flush(NOW) is None
    append(log, b"c")
    begun = log.begin_flush(NOW)
    assert begun is not None
    append(log, b"meanwhile")
    begun.run()
    log.finish_flush(begun)
    assert log.recovery_point == 3
    log.config = with_settings(flush_ms=1000)
    assert log.begin_flush(NOW + 999) is None and log.begin_flush(NOW + 1000) is not None


def test_rolled_segments_are_flushed_without_being_asked_for() -> None:
    logs = open_dir(MemoryFilesystem())
    log = logs.create("t", 0, TOPIC_ID, with_settings())
    append(log, b"a")
    assert log.begin_flush(NOW) is None
    log.roll()
    append(log, b"b")
    begun = log.begin_flush(NOW)
    assert begun is not None
    begun.run()
    log.finish_flush(begun)
    assert log.recovery_point == 1 and log.begin_flush(NOW) is None


def test_close_recovers_what_nobody_asked_for_before_it_vouches_for_it() -> None:
    filesystem = MemoryFilesystem()
    logs = open_dir(filesystem)
    append(logs.create("t", 0, TOPIC_ID, with_settings()), b"a")
    filesystem.kill()
    filesystem.content("/logs/t-0/00000000000000000000.log").extend(b"torn")
    open_dir(filesystem).close()
    logs = open_dir(filesystem)
    log = logs.log("t", 0)
    assert (
        logs.last_shutdown.clean and log is not None and log.recovery_result.cut_bytes == 0 and values_of(log) == [b"a"]
    )
