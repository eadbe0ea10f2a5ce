"""`tailrace export-kafka`: what a KRaft node finds in the directories it makes."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from typer.testing import CliRunner, Result

from support.kafka_directory import TOPIC_ID, kafka_directory
from tailrace.cli.daily import app
from tailrace.cli.files.exporting import never_used
from tailrace.cli.files.kafka_dirs import KafkaDirectory
from tailrace.inspect.dump import rows
from tailrace.inspect.kafka_metadata import DIRECTORY, replay
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.metadata.directories import LOST, UNASSIGNED
from tailrace.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def tailrace(tmp_path: Path) -> Path:
    """A data directory with two brokers that were shut down cleanly."""
    epochs = {0: 6, 1: 7}
    directories = [kafka_directory(tmp_path / f"k{n}", n, (0, 1), epoch=e, epochs=epochs) for n, e in epochs.items()]
    done = run("import-kafka", *directories, "--data", tmp_path / "tailrace")
    assert done.exit_code == 0, done.output
    return tmp_path / "tailrace"


def test_every_node_gets_its_logs_and_the_metadata(tailrace: Path, tmp_path: Path) -> None:
    done = run("export-kafka", tailrace, tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert f"node.id=1: log.dirs={tmp_path / 'out' / 'node-1'}" in done.output
    for node in (0, 1):
        own = tmp_path / "out" / f"node-{node}"
        image = replay(own).image
        topic = image.topics["orders"]
        assert (topic.topic_id, topic.partitions[0].replicas) == (TOPIC_ID, (0, 1))
        assert topic.partitions[0].leader == -1 and set(topic.partitions[0].eligible_leader_replicas) == {0, 1}
        assert image.config(2, "orders") == {"retention.ms": "-1"} and image.next_producer_id == 3000
        assert image.features["group.version"] == 1 and image.features["metadata.version"] > 0
        original = {path.name: path.read_bytes() for path in (tmp_path / f"k{node}" / "orders-0").iterdir()}
        assert {path.name: path.read_bytes() for path in (own / "orders-0").iterdir()} == original
        assert run("verify-log", own).exit_code == 0


def test_an_older_backup_of_a_broker_is_out_of_sync(tailrace: Path, tmp_path: Path) -> None:
    (tailrace / "broker-1" / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":4}')
    done = run("export-kafka", tailrace, tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "Broker 1 was not closed at the end of its last life, broker epoch 7" in done.output
    assert (tmp_path / "out" / "node-0" / ".kafka_cleanshutdown").exists()
    assert not (tmp_path / "out" / "node-1" / ".kafka_cleanshutdown").exists()


def test_log_dirs_outside_the_data_directory_are_named(tailrace: Path, tmp_path: Path) -> None:
    elsewhere = [(tailrace / f"broker-{node}").rename(tmp_path / f"disk-{node}") for node in (0, 1)]
    missed = run("export-kafka", tailrace, tmp_path / "out", "--log-dir", elsewhere[0])
    assert missed.exit_code == 1 and "Broker 1 holds replicas too: name its log directories." in missed.output
    done = run("export-kafka", tailrace, tmp_path / "out", "--log-dir", elsewhere[0], "--log-dir", elsewhere[1])
    assert done.exit_code == 0, done.output
    for node in (0, 1):
        assert replay(tmp_path / "out" / f"node-{node}").image.topics["orders"].topic_id == TOPIC_ID
        assert run("verify-log", tmp_path / "out" / f"node-{node}").exit_code == 0


def test_the_snapshot_has_kafkas_records_alone_between_its_control_records(tailrace: Path, tmp_path: Path) -> None:
    assert run("export-kafka", tailrace, tmp_path / "out").exit_code == 0
    (path,) = (tmp_path / "out" / "node-0" / DIRECTORY).iterdir()
    found = [row for row in rows(path, deep=True) if row["row"] == "record"]
    assert found[0]["marker"] == "snapshot header" and found[-1]["marker"] == "snapshot footer"
    kinds = {row["decoded"]["type"] for row in found[1:-1]}
    assert kinds >= {"TopicRecord", "PartitionRecord", "RegisterBrokerRecord", "ProducerIdsRecord"}
    assert not kinds & {"ClusterRecord", "ServiceRecord", "ShardOwnerRecord", "unknown"}
    assert [row["offset"] for row in found] == list(range(len(found)))


def test_what_runs_is_no_data_directory_or_crashed_is_refused_without_a_trace(tailrace: Path, tmp_path: Path) -> None:
    lock = RealFilesystem().lock(str(tailrace / "broker-0" / ".lock"))
    refused = run("export-kafka", tailrace, tmp_path / "out")
    assert refused.exit_code == 1 and "A broker runs on" in refused.output
    del lock
    refused = run("export-kafka", tmp_path / "nothing", tmp_path / "out")
    assert refused.exit_code == 1 and f"{tmp_path / 'nothing'} is no data directory of Tailrace" in refused.output
    (tailrace / "broker-0" / ".kafka_cleanshutdown").unlink()
    refused = run("export-kafka", tailrace, tmp_path / "out")
    assert refused.exit_code == 1 and "was not shut down cleanly" in refused.output
    refused = run("export-kafka", tailrace, tailrace / "broker-1" / "out", "--unclean")
    assert refused.exit_code == 1 and f"lies in {tailrace / 'broker-1'}" in refused.output
    assert not list(tmp_path.glob("**/*out*"))
    assert run("export-kafka", tailrace, tmp_path / "out", "--unclean").exit_code == 0
    assert "exists already" in run("export-kafka", tailrace, tmp_path / "out").output


HERE, THERE = UUID(int=100), UUID(int=200)


def found(directory_id: UUID, *, recovery_point: int | None = None) -> KafkaDirectory:
    checkpoint = {} if recovery_point is None else {("events", 0): recovery_point}
    return KafkaDirectory(Path("/disk"), "c", 0, directory_id, 5, {}, {"recovery-point-offset-checkpoint": checkpoint})


@pytest.mark.parametrize(
    ("assigned", "registered", "directories", "unused"),
    [
        ((HERE,), (HERE,), [found(HERE)], True),
        ((HERE,), (HERE, THERE), [found(HERE)], True),
        ((HERE,), (HERE,), [found(HERE, recovery_point=0)], True),
        ((HERE,), (HERE,), [found(HERE, recovery_point=3)], False),
        ((THERE,), (HERE, THERE), [found(HERE)], False),
        ((UNASSIGNED,), (HERE, THERE), [found(HERE)], False),
        ((UNASSIGNED,), (HERE, THERE), [found(HERE), found(THERE)], True),
        ((), (HERE,), [found(HERE)], True),
        ((), (), [found(HERE)], False),
        ((LOST,), (HERE,), [found(HERE)], False),
    ],
)
def test_a_partition_without_a_directory_was_never_used_where_no_directory_is_missing(
    assigned: tuple[UUID, ...], registered: tuple[UUID, ...], directories: list[KafkaDirectory], unused: bool
) -> None:
    partition = PartitionImage((0,), (0,), 0, 0, 0, directories=assigned)
    image = MetadataImage(
        topics={"events": TopicImage("events", TOPIC_ID, (partition,))},
        brokers={0: BrokerImage(0, 5, UUID(int=1), log_dirs=registered)},
    )
    assert never_used(directories, image) == ({("events", 0)} if unused else set())
