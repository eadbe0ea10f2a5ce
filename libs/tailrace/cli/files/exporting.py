"""`tailrace export-kafka DIR TARGET`: a stopped cluster becomes log directories that Apache Kafka starts on."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.data_dir import Refused
from tailrace.cli.files import importing, kafka_dirs, moved, staging
from tailrace.cli.files.importing import Broker, counted
from tailrace.cli.files.takeover import How
from tailrace.inspect import files, kafka_metadata, kafka_snapshot
from tailrace.log.directory.checkpoints import META_PROPERTIES
from tailrace.metadata import moving
from tailrace.metadata.image import MetadataImage
from tailrace.net.metadata_batches import Snapshot, decode_snapshot
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
    with importing.told("exported", target), kafka_dirs.held(directories):
        sentences = list(run(data, directories, target, how, unclean=unclean))
    for sentence in sentences:  # out there: who cannot be told must not be told that nothing was done
        typer.echo(sentence)


def _directories(data: Path, log_dirs: list[Path]) -> list[Path]:
    """The brokers' log directories in a data directory, and those that were named."""
    inside = [path for path in files.log_directories(data) if not log_dirs or path != data]
    return [*inside, *(path for path in log_dirs if path not in inside)]


def run(data: Path, directories: list[Path], target: Path, how: How, *, unclean: bool) -> Iterator[str]:
    """Exports into target, which appears when all is there; yields sentences about it. Refused, OSError."""
    if how is How.MOVE and moved.is_decided(directories, target):
        moved.give_up(directories, target)
        yield f"All of it had been moved to {target} already; nothing is left to remove."
        return
    if directories == [data] and not moved.read(data) and not (data / META_PROPERTIES).exists():
        raise Refused(f"{data} is no data directory of Tailrace: no broker has its log directory there.")
    staging.refuse_existing(target)
    staging.refuse_inside(target, directories)
    found = [kafka_dirs.read(path, unclean=unclean) for path in directories]
    image = _image(data)
    epochs = {number: broker.broker_epoch for number, broker in image.brokers.items()}
    brokers = [broker._replace(new_id=broker.old_id) for broker in importing.brokers_of(found, image, epochs)]
    ids = {broker.old_id: broker.old_id for broker in brokers}
    closed = {broker.old_id: broker.closed_epoch for broker in brokers}
    image = moving.moved(image, ids, closed, {broker.old_id: broker.directory_id for broker in brokers})
    with ExitStack() as stack:
        working = stack.enter_context(staging.staged(target, "exporting"))
        taken = [step for broker in brokers for step in importing.plan(broker, image, _own(working, broker), how)]
        importing.carry_out(taken)
        for broker in brokers:
            importing.write_own_files(broker, image, _own(working, broker))
            _write_metadata(_own(working, broker), image)
        if how is How.MOVE:
            stack.enter_context(moved.marked(importing.sources_of(found, taken), working, target))
    if how is How.MOVE:
        moved.give_up(directories, target)
    topics, nodes = counted(len(image.topics), "topic"), counted(len(brokers), "node")
    yield f"Exported cluster {image.cluster_id}: {topics}, {nodes}."
    for broker in brokers:
        yield f"node.id={broker.old_id}: log.dirs={_own(target, broker)}"
    yield from importing.told_older(image, brokers)
    yield "Write each node's server.properties with these two lines; `kafka-storage format` is not needed."


def _own(folder: Path, broker: Broker) -> Path:
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
