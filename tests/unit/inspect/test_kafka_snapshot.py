"""An image as Kafka's snapshot: what Kafka would not know stays behind, and what is secret is not put into words."""

from __future__ import annotations

from pathlib import Path

from tailrace.inspect import kafka_snapshot
from tailrace.inspect.dump import rows
from tailrace.inspect.kafka_metadata import DIRECTORY, replay
from tailrace.kafka.features import INITIAL, SECURITY_VERSION
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import FeatureLevelRecord, UserScramCredentialRecord
from tailrace.metadata.replay import replay as replayed

USER = UserScramCredentialRecord("alice", 2, b"salt", b"stored", b"server", 8192)
IMAGE = replayed(MetadataImage(), [*(FeatureLevelRecord(*one) for one in INITIAL.items()), USER], 9, 1)


def written(folder: Path) -> Path:
    path = folder / DIRECTORY / kafka_snapshot.file_name(IMAGE)
    path.parent.mkdir()
    path.write_bytes(kafka_snapshot.encode(IMAGE, 0))
    return path


def test_users_go_to_kafka_and_features_of_ours_do_not(tmp_path: Path) -> None:
    written(tmp_path)
    there = replay(tmp_path).image
    assert there.scram == IMAGE.scram
    assert SECURITY_VERSION in IMAGE.features and SECURITY_VERSION not in there.features


def test_a_dump_hides_the_keys_that_check_a_password(tmp_path: Path) -> None:
    decoded = [row["decoded"] for row in rows(written(tmp_path), deep=True) if "decoded" in row]
    (user,) = [row for row in decoded if row["type"] == "UserScramCredentialRecord"]
    hidden = dict.fromkeys(("salt", "stored_key", "server_key"), "[hidden]")
    assert user == {"type": "UserScramCredentialRecord", "name": "alice", "mechanism": 2, "iterations": 8192, **hidden}
