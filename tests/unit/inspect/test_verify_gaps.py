"""verify-log and offsets that are missing: compaction takes some, and a follower's copy lacks them from the start."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from uuid import UUID

from support.logs import NOW, with_settings
from tailrace.inspect.verify import verify
from tailrace.log.compaction import plan
from tailrace.log.directory.checkpoint_copies import COPY_SUFFIX
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem import checkpoints
from tailrace.log.filesystem.pending_deletions import remove_paths
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.records.record import Record, build

COMPACTED = with_settings(segment_bytes=400, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)


def followers_copy(path: Path) -> Path:
    """A compacted log of a cleanly stopped broker whose own cleaner has not seen it; every third batch is gone."""
    logs = LogDir.open(RealFilesystem(), str(path), node_id=0, cluster_id="c", now_ms=NOW)
    log = logs.create("topic", 0, UUID(int=7), COMPACTED)
    for number in range(30):
        keys = [b"often", *([b"%d" % number] if number % 3 else [])]
        log.append([build([Record(timestamp=NOW, key=key, value=b"v" * 30) for key in keys])], 0, NOW)
    compaction = plan.begin(log, NOW, log.log_end_offset)
    assert compaction is not None
    compaction.run()
    plan.finish(log, compaction)
    logs.high_watermarks["topic", 0] = log.log_end_offset
    remove_paths(logs.guard, logs.pending_deletions.due(NOW + COMPACTED.file_delete_delay_ms))
    logs.close(broker_epoch=5)
    for name in (checkpoints.CLEANER_OFFSET, checkpoints.CLEANER_OFFSET + COPY_SUFFIX):
        (path / name).unlink(missing_ok=True)
    return path


def findings(path: Path, compacted: Collection[str] = ()) -> list[str]:
    return [str(finding) for finding in verify(path, lambda read: None, lambda log_directory: compacted)]


def test_a_log_whose_batches_show_the_cleaners_hand_may_lack_offsets(tmp_path: Path) -> None:
    path = followers_copy(tmp_path)
    assert findings(path) == [] and findings(path / "topic-0") == []


def test_where_only_whole_batches_are_gone_the_topics_policy_says_whether_that_is_right(tmp_path: Path) -> None:
    logs = LogDir.open(RealFilesystem(), str(tmp_path), node_id=0, cluster_id="c", now_ms=NOW)
    log = logs.create("topic", 0, UUID(int=7), COMPACTED)
    for base_offset in (26, 27):
        log.append_replicated(build([Record(timestamp=NOW, key=b"k")], base_offset=base_offset, leader_epoch=0), NOW)
    logs.close(broker_epoch=5)
    assert findings(tmp_path, {"topic"}) == [] and findings(tmp_path / "topic-0", {"topic"}) == []
    (finding,) = findings(tmp_path, {"other"})
    assert ".log: offsets 0 to 25 are missing" in finding and "cleanup.policy is or was compact" in finding


def test_all_gaps_of_a_partition_are_one_finding(tmp_path: Path) -> None:
    logs = LogDir.open(RealFilesystem(), str(tmp_path), node_id=0, cluster_id="c", now_ms=NOW)
    log = logs.create("topic", 0, UUID(int=7), COMPACTED)
    for base_offset in (0, 3, 7, 8):
        batch = build([Record(timestamp=NOW, key=b"k")], base_offset=base_offset, leader_epoch=0)
        assert log.append_replicated(batch, NOW) == base_offset + 1
    logs.close(broker_epoch=5)
    (finding,) = findings(tmp_path)
    assert "offsets 1 to 2 are missing, and some in 1 more place" in finding


def test_damage_behind_a_gap_is_found_all_the_same(tmp_path: Path) -> None:
    path = followers_copy(tmp_path)
    segment = sorted((path / "topic-0").glob("*.log"))[0]
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    assert [line for line in findings(path) if "CRC" in line]
