"""`tailrace export-kafka DIR TARGET`: a stopped cluster becomes log directories that Apache Kafka starts on."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from tailrace.cli.data_dir import Refused
from tailrace.cli.files import importing, kafka_dirs
from tailrace.cli.files.importing import Broker
from tailrace.cli.files.takeover import How
from tailrace.cli.roles import find_role
from tailrace.log import files, kafka_metadata, kafka_snapshot
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
        for sentence in run(data, directories, target, how, unclean=unclean):
            typer.echo(sentence)


def _directories(data: Path, log_dirs: list[Path]) -> list[Path]:
    """The brokers' log directories in a data directory, and those that were named."""
    inside = [path for path in files.log_directories(data) if not log_dirs or path != data]
    return [*inside, *(path for path in log_dirs if path not in inside)]


def run(data: Path, directories: list[Path], target: Path, how: How, *, unclean: bool) -> Iterator[str]:
    """Exports into target, which appears when all is there; yields sentences about it. Refused, OSError."""
    if target.exists():
        raise Refused(f"{target} exists already: name a directory that does not.")
    found = [kafka_dirs.read(path, unclean=unclean) for path in directories]
    image = _image(data)
    brokers = [broker._replace(new_id=broker.old_id) for broker in importing.brokers_of(found, image)]
    ids = {broker.old_id: broker.old_id for broker in brokers}
    closed = {broker.old_id: broker.closed_epoch for broker in brokers}
    image = moving.moved(image, ids, closed, {broker.old_id: broker.directory_id for broker in brokers})
    working = target.with_name(f".{target.name}.exporting")
    shutil.rmtree(working, ignore_errors=True)
    try:
        taken = [step for broker in brokers for step in importing.plan(broker, image, _own(working, broker), how)]
        importing.carry_out(taken)
        for broker in brokers:
            importing.write_own_files(broker, image, _own(working, broker))
            _write_metadata(_own(working, broker), image)
        working.rename(target)
    finally:
        shutil.rmtree(working, ignore_errors=True)
    if how is How.MOVE:
        importing.give_up_sources(taken)
    yield f"Exported cluster {image.cluster_id}: {len(image.topics)} topics, {len(brokers)} nodes."
    for broker in brokers:
        yield f"node.id={broker.old_id}: log.dirs={_own(target, broker)}"
    yield "Write each node's server.properties with these two lines; `kafka-storage format` is not needed."


def _own(folder: Path, broker: Broker) -> Path:
    return folder / f"node-{broker.old_id}"


def _image(data: Path) -> MetadataImage:
    """The metadata, by the controller's own command."""
    with tempfile.TemporaryDirectory() as folder:
        if find_role("controller")().commands["write-image"](["--data", str(data), "--to", folder]):
            raise Refused(f"Nothing was exported: the metadata of {data} could not be read.")
        (path,) = Path(folder).iterdir()
        end_offset, epoch = path.stem.split("-")
        return decode_snapshot(Snapshot(int(end_offset), int(epoch), path.read_bytes()))


def _write_metadata(own: Path, image: MetadataImage) -> None:
    """Every node gets the snapshot, so that any of them may be a controller."""
    folder = own / kafka_metadata.DIRECTORY
    folder.mkdir()
    (folder / kafka_snapshot.file_name(image)).write_bytes(kafka_snapshot.encode(image, SystemClock().wall_ms()))
