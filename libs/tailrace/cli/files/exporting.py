"""`tailrace export-kafka DIR TARGET`: a stopped cluster becomes log directories that Apache Kafka starts on."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.daily.connection import counted
from tailrace.cli.daily.output import done
from tailrace.cli.data_dir import UpRefused
from tailrace.cli.files import importing, kafka_dirs, moved, staging
from tailrace.cli.files.importing import ImportedBroker
from tailrace.cli.files.kafka_dirs import KafkaDirectory
from tailrace.cli.files.takeover import How
from tailrace.inspect import files, kafka_metadata, kafka_snapshot
from tailrace.kafka.ids import TopicPartition
from tailrace.log.filesystem.checkpoints import META_PROPERTIES, PARTITION_METADATA, format_partition_metadata
from tailrace.log.segment.index import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from tailrace.log.segment.segment import LOG_SUFFIX, file_name
from tailrace.metadata import moving
from tailrace.metadata.directories import MIGRATING, UNASSIGNED
from tailrace.metadata.image import MetadataImage
from tailrace.net.metadata.batches import Snapshot, decode_snapshot
from tailrace.runtime.clock import SystemClock


def export_kafka(
    data: Annotated[Path, typer.Argument(metavar="DIR", help="the data directory of a stopped cluster")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="made here, with one directory a node")],
    how: Annotated[How, typer.Option("--how", help="link: closed segments become hard links")] = How.LINK,
    unclean: Annotated[bool, typer.Option("--unclean", help="export what a recovery finds after a crash")] = False,
    log_dirs: Annotated[
        list[Path] | None,
        typer.Option("--log-dir", metavar="PATH", help="an entry of a broker's log.dirs outside DIR; may be repeated"),
    ] = None,
) -> None:
    """Write log directories that Apache Kafka 4 starts on: topics with ids and configs, records, groups, offsets."""
    target, data = target.expanduser().absolute(), data.expanduser().absolute()
    directories = _directories(data, [path.expanduser().absolute() for path in log_dirs or ()])
    with importing.reported("exported", target), kafka_dirs.held(directories):
        sentences = list(run(data, directories, target, how, unclean=unclean))
    for sentence in sentences:  # out there: who cannot be told must not be told that nothing was done
        done(sentence)


def _directories(data: Path, log_dirs: list[Path]) -> list[Path]:
    """The brokers' log directories in a data directory, and those that were named."""
    inside = [path for path in files.log_directories(data) if not log_dirs or path != data]
    return [*inside, *(path for path in log_dirs if path not in inside)]


def run(data: Path, directories: list[Path], target: Path, how: How, *, unclean: bool) -> Iterator[str]:
    """Exports into target, which appears when all is there; yields sentences about it. UpRefused, OSError."""
    if how is How.MOVE and moved.is_decided(directories, target):
        moved.give_up(directories, target)
        yield f"All of it had been moved to {target} already; nothing is left to remove."
        return
    if directories == [data] and not moved.read(data) and not (data / META_PROPERTIES).exists():
        raise UpRefused(f"{data} is no data directory of Tailrace: no broker has its log directory there.")
    staging.refuse_existing(target)
    staging.refuse_inside(target, directories)
    found = [kafka_dirs.read(path, unclean=unclean) for path in directories]
    image = _image(data)
    epochs = {number: broker.broker_epoch for number, broker in image.brokers.items()}
    unmade = never_used(found, image)
    brokers = [broker._replace(new_id=broker.old_id) for broker in importing.brokers_of(found, image, epochs, unmade)]
    ids = {broker.old_id: broker.old_id for broker in brokers}
    closed = {broker.old_id: broker.closed_epoch for broker in brokers}
    image = moving.moved(image, ids, closed, {broker.old_id: broker.directory_id for broker in brokers})
    with ExitStack() as stack:
        working = stack.enter_context(staging.staged(target, "exporting"))
        taken = [step for broker in brokers for step in importing.plan(broker, image, _own(working, broker), how)]
        importing.carry_out(taken)
        _make(unmade, image, working)
        for broker in brokers:
            importing.write_own_files(broker, image, _own(working, broker), unmade)
            _write_metadata(_own(working, broker), image)
        if how is How.MOVE:
            stack.enter_context(moved.marked(importing.sources_of(found, taken), working, target))
    if how is How.MOVE:
        moved.give_up(directories, target)
    topics, nodes = counted(len(image.topics), "topic"), counted(len(brokers), "node")
    yield f"Exported cluster {image.cluster_id}: {topics}, {nodes}."
    for broker in brokers:
        yield f"node.id={broker.old_id}: log.dirs={_own(target, broker)}"
    yield from importing.report_older(image, brokers)
    yield "Write these two settings into the server.properties of each node; `kafka-storage format` is not needed."


def never_used(found: Iterable[KafkaDirectory], image: MetadataImage) -> set[TopicPartition]:
    """Partitions without a directory that miss nothing: a broker makes one when the partition is used first.

    So it is where the directory that it was assigned to (KIP-858), or every one that its broker has, is among those
    found and has no checkpoint of it. Else a directory was not named.
    """
    by_node: dict[int, list[KafkaDirectory]] = {}
    for directory in found:
        by_node.setdefault(directory.node_id, []).append(directory)
    return {
        (name, index)
        for name, topic in image.topics.items()
        for index, partition in enumerate(topic.partitions)
        if all(_misses_nothing(by_node.get(node, []), image, node, (name, index)) for node in partition.replicas)
    }


def _misses_nothing(found: list[KafkaDirectory], image: MetadataImage, node: int, place: TopicPartition) -> bool:
    if any(place in directory.partitions or _is_known(directory, place) for directory in found):
        return False
    partition, broker = image.topics[place[0]].partitions[place[1]], image.brokers.get(node)
    assigned = dict(zip(partition.replicas, partition.directories, strict=False)).get(node, UNASSIGNED)
    there = {directory.directory_id for directory in found}
    if assigned not in (UNASSIGNED, MIGRATING):
        return assigned in there
    return broker is not None and bool(broker.log_dirs) and there.issuperset(broker.log_dirs)


def _is_known(directory: KafkaDirectory, place: TopicPartition) -> bool:
    return any(offsets.get(place, 0) > 0 for offsets in directory.offsets.values())


def _make(unmade: Iterable[TopicPartition], image: MetadataImage, working: Path) -> None:
    """Kafka makes a partition's directory when the partition is created."""
    for name, index in unmade:
        topic = image.topics[name]
        for node in topic.partitions[index].replicas:
            folder = working / f"node-{node}" / f"{name}-{index}"
            folder.mkdir(parents=True)
            for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                (folder / file_name(0, suffix)).touch()
            staging.write(folder, PARTITION_METADATA, format_partition_metadata(topic.topic_id))


def _own(folder: Path, broker: ImportedBroker) -> Path:
    return folder / f"node-{broker.old_id}"


def _image(data: Path) -> MetadataImage:
    """The metadata, by the controller's own command."""
    with tempfile.TemporaryDirectory() as folder:
        importing.controller("write-image", ["--data", str(data), "--to", folder], "Nothing was exported")
        (path,) = Path(folder).iterdir()
        end_offset, epoch = path.stem.split("-")
        return decode_snapshot(Snapshot(int(end_offset), int(epoch), path.read_bytes()))


def _write_metadata(own: Path, image: MetadataImage) -> None:
    """Every node gets the snapshot, so that any of them may be a controller."""
    folder = own / kafka_metadata.DIRECTORY
    folder.mkdir()
    staging.write(folder, kafka_snapshot.file_name(image), kafka_snapshot.encode(image, SystemClock().wall_ms()))
