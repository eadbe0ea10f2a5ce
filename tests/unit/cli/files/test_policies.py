"""verify-log finds in the metadata beside a log directory which topics are compacted, and so may lack offsets."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from typer.testing import CliRunner, Result

from support.kafka_directory import write_metadata
from support.logs import NOW
from tailrace.cli.daily import app
from tailrace.log.config import LogConfig
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.metadata import codec
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import ConfigRecord
from tailrace.metadata.replay import replay
from tailrace.net.metadata import cache as metadata_cache
from tailrace.net.metadata.batches import encode_snapshot
from tailrace.records.record import Record, build

POLICY = ConfigRecord(2, "topic", "cleanup.policy", "compact,delete")


def lacking_offsets(path: Path) -> Path:
    """A stopped broker's copy of a log from which compaction took whole batches before it was copied."""
    logs = LogDir.open(RealFilesystem(), str(path), node_id=0, cluster_id="c", now_ms=NOW)
    log = logs.create("topic", 0, UUID(int=7), LogConfig(cleanup_policy="compact"))
    for base_offset in (3, 7):
        batch = build([Record(timestamp=NOW, key=b"k")], base_offset=base_offset, leader_epoch=0)
        assert log.append_replicated(batch, NOW) == base_offset + 1
    logs.close(broker_epoch=5)
    return path


def verified(path: Path) -> Result:
    return CliRunner().invoke(app, ["verify-log", str(path)])


def test_kafkas_metadata_log_tells(tmp_path: Path) -> None:
    path = lacking_offsets(tmp_path / "data")
    done = verified(path)
    assert done.exit_code == 1 and "offsets 0 to 2 are missing, and some in 1 more place;" in done.stdout
    write_metadata(path, [codec.encode(POLICY)])
    assert "are missing" not in verified(path).stdout
    assert verified(path / "topic-0").exit_code == 0
    (path / "__cluster_metadata-0" / f"{0:020d}.log").write_bytes(b"damaged")
    done = verified(path)
    assert "are missing" in done.stdout and "are no whole batch" in done.stdout


def test_the_image_that_a_broker_keeps_tells(tmp_path: Path) -> None:
    path = lacking_offsets(tmp_path / "broker-0")
    snapshot = encode_snapshot(replay(MetadataImage(), [POLICY], 0, 1), NOW)
    metadata_cache.write(tmp_path / "metadata-cache" / "broker-0.image", snapshot, 1)
    done = verified(path)
    assert done.exit_code == 0, done.output
