"""`tailrace import-kafka DIR...`: a stopped Apache Kafka's log directories become a Tailrace data directory."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Annotated, NamedTuple
from uuid import UUID

import typer

from tailrace.cli.command import INTERRUPTED
from tailrace.cli.daily.connection import counted, say
from tailrace.cli.daily.output import done
from tailrace.cli.data_dir import UpRefused
from tailrace.cli.files import kafka_dirs, known_configs, moved, staging
from tailrace.cli.files.kafka_dirs import KafkaDirectory
from tailrace.cli.files.takeover import How, Step, steps, take
from tailrace.cli.files.verify import progress
from tailrace.cli.options import unfit_data_dir
from tailrace.cli.roles import find_role
from tailrace.inspect import files
from tailrace.inspect.stopped import first_open_transaction
from tailrace.kafka.ids import TopicPartition
from tailrace.kafka.resources import ALL_BROKERS, ConfigResource
from tailrace.log.filesystem import checkpoints
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.log.segment.segment import LOG_SUFFIX, file_name
from tailrace.metadata import moving
from tailrace.metadata.image import MetadataImage
from tailrace.net.metadata.batches import encode_snapshot
from tailrace.runtime.clock import SystemClock
from tailrace.runtime.run_files import default_data_dir

_TIERED = "remote.storage.enable"
_SNAPSHOT_FILE = "import.snapshot"
_NAMED_MAX = 8
_MIN_ISR, _MIN_ISR_BROKERS = "min.insync.replicas", 2  # `up` sets it where there are more


def import_kafka(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="every log.dirs entry of every node")],
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="made here; default: that of `up`")] = None,
    how: Annotated[How, typer.Option("--how", help="link: closed segments become hard links")] = How.LINK,
    unclean: Annotated[bool, typer.Option("--unclean", help="import what a recovery finds after a crash")] = False,
) -> None:
    """Take over the log directories of a stopped Apache Kafka 4 cluster, with its topics, groups and offsets."""
    target = (data or default_data_dir(os.environ)).expanduser().absolute()
    if why := unfit_data_dir(target):
        raise typer.BadParameter(f"--data {why}")
    with reported("imported", target), kafka_dirs.held(directories):
        sentences = list(run(directories, target, how, unclean=unclean))
    for sentence in sentences:  # out there: who cannot be told must not be told that nothing was done
        done(sentence)


@contextmanager
def reported(done: str, target: Path) -> Iterator[None]:
    """Turns what goes wrong into a sentence and status 1, Ctrl-C into one and status 130."""
    try:
        yield
    except UpRefused as refusal:
        say(str(refusal), err=True)
        raise typer.Exit(1) from None
    except OSError as error:
        say(
            f"Nothing was {done}, and what was there is as it was: {error.filename or target}: {error.strerror}. "
            "Run the same command again when that is mended.",
            err=True,
        )
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        say(f"Interrupted. To have it {done} after all, run the same command again.", err=True)
        raise typer.Exit(INTERRUPTED) from None


class ImportedBroker(NamedTuple):
    """One broker of the new cluster, and the directories that were its own."""

    new_id: int
    old_id: int
    directories: list[KafkaDirectory]
    registered_epoch: int  # of its last life, -1 if the metadata knows none

    @property
    def closed_epoch(self) -> int:
        """The epoch of its last life if all of its directories were closed cleanly at the end of it, else -1.

        As in Kafka's registration (KIP-966): whoever brings an older copy of a log directory may lack what others
        had counted on.
        """
        return self.registered_epoch if {*self._epochs()} == {self.registered_epoch} else -1

    @property
    def is_older(self) -> bool:
        """Whether all of its directories were closed cleanly, but not all of them at the end of its last life."""
        return self.closed_epoch < 0 and None not in self._epochs()

    def _epochs(self) -> list[int | None]:
        """Not of a directory that has only the metadata: Kafka does not mark one outside log.dirs."""
        return [found.broker_epoch for found in self.directories if found.partitions or found.broker_epoch is not None]

    @property
    def directory_id(self) -> UUID:
        return self.directories[0].directory_id


def run(paths: Sequence[Path], target: Path, how: How, *, unclean: bool) -> Iterator[str]:
    """Imports into target, which appears when all is there; yields sentences about it. UpRefused, OSError."""
    kafka_dirs.refuse_repeated(paths)
    if how is How.MOVE and moved.is_decided(paths, target):
        moved.give_up(paths, target)
        yield f"All of it had been moved to {target} already; nothing is left to remove."
        return
    staging.refuse_existing(target)
    staging.refuse_inside(target, paths)
    found = [kafka_dirs.read(path, unclean=unclean) for path in paths]
    if len({directory.cluster_id for directory in found}) != 1:
        raise UpRefused("The directories are of several clusters: " + ", ".join(sorted({d.cluster_id for d in found})))
    replayed = kafka_dirs.metadata(found)
    image = replace(replayed.image, cluster_id=found[0].cluster_id)
    left_out = list(known_configs.unknown_configs(image))
    tiered = [name for (_, name), values in image.configs.items() if values.get(_TIERED) == "true"]
    if tiered:
        raise UpRefused(f"{tiered[0]} is in tiered storage ({_TIERED}): bring it back to local disks first.")
    image = known_configs.without_configs(image, left_out)
    brokers = brokers_of(found, image, replayed.broker_epochs)
    ids = {broker.old_id: broker.new_id for broker in brokers}
    closed = {broker.new_id: broker.closed_epoch for broker in brokers}
    image = moving.moved(image, ids, closed, {broker.new_id: broker.directory_id for broker in brokers})
    with ExitStack() as stack:
        working = stack.enter_context(staging.staged(target, "importing"))
        taken = [step for broker in brokers for step in plan(broker, image, _own(working, broker), how)]
        linked = carry_out(taken)
        for broker in brokers:
            write_own_files(broker, image, _own(working, broker))
        _begin(image, working)
        still_open = open_transactions(brokers, working)
        if how is How.MOVE:
            stack.enter_context(moved.marked(sources_of(found, taken), working, target))
    if how is How.MOVE:
        moved.give_up(paths, target)
    yield from _summary(image, brokers, taken, linked, target)
    yield from _report_missing(image, brokers)
    yield from report_older(image, brokers)
    yield from _report_left_out(replayed.left_out, left_out)
    yield from _report_kept(image, len(brokers))
    yield from _report_open(still_open)


def brokers_of(
    found: list[KafkaDirectory],
    image: MetadataImage,
    epochs: Mapping[int, int],
    unmade: Collection[TopicPartition] = (),
) -> list[ImportedBroker]:
    """The brokers, numbered from 0 in the order of their ids; UpRefused where a replica's or a partition's is missing.

    unmade are those that have no directory because nobody has used them yet.
    """
    wanted = {replica for topic in image.topics.values() for one in topic.partitions for replica in one.replicas}
    by_node: dict[int, list[KafkaDirectory]] = {}
    for directory in found:
        if directory.node_id in wanted:
            by_node.setdefault(directory.node_id, []).append(directory)
    if missing := sorted(wanted - by_node.keys()):
        raise UpRefused(f"Broker {missing[0]} holds replicas too: name its log directories.")
    if not by_node:
        raise UpRefused("There is nothing to import: the cluster has no topics.")
    for name, topic in image.topics.items():
        for index, partition in enumerate(topic.partitions):
            if (name, index) in unmade:
                continue
            held = {node: _held(by_node[node], image, (name, index)) for node in partition.replicas}
            _refuse_lost_or_twice(f"{name}-{index}", held, {*partition.isr, *partition.eligible_leader_replicas})
    return [ImportedBroker(new, old, by_node[old], epochs.get(old, -1)) for new, old in enumerate(sorted(by_node))]


def _refuse_lost_or_twice(what: str, held: Mapping[int, list[Path]], in_sync: Collection[int]) -> None:
    """By node where its replica is; one in sync that is nowhere would lead with an empty log, and others follow it."""
    if not any(held.values()):
        raise UpRefused(f"{what} is in none of the directories: name every entry of log.dirs.")
    for paths in held.values():
        if len(paths) > 1:
            raise UpRefused(f"{paths[0]} and {paths[1]} hold the same replica, so one is a copy: leave it out.")
    lost = [node for node, paths in held.items() if not paths and node in in_sync]
    if lost and not all(_was_never_written(path) for paths in held.values() for path in paths):
        raise UpRefused(
            f"Broker {lost[0]}'s replica of {what} is in none of the directories: name every entry of its log.dirs."
        )


def _was_never_written(path: Path) -> bool:
    """Whether a partition is as it was made: whoever stopped before it made its own lacks nothing."""
    logs = {log.name: log.stat().st_size for log in path.glob(f"*{LOG_SUFFIX}")}
    return logs in ({}, {file_name(0, LOG_SUFFIX): 0})


def _held(directories: list[KafkaDirectory], image: MetadataImage, place: TopicPartition) -> list[Path]:
    return [path for directory in directories if (path := _of(directory, image, place))]


def _of(directory: KafkaDirectory, image: MetadataImage, place: TopicPartition) -> Path | None:
    """The partition's directory, unless it is one of an older topic of that name."""
    path, topic = directory.partitions.get(place), image.topics.get(place[0])
    if path is None or topic is None or place[1] >= len(topic.partitions):
        return None
    try:
        topic_id = checkpoints.parse_partition_metadata((path / checkpoints.PARTITION_METADATA).read_bytes())
    except FileNotFoundError:
        return path
    return path if topic_id == topic.topic_id else None


def _own(folder: Path, broker: ImportedBroker) -> Path:
    return folder / f"broker-{broker.new_id}"


def plan(broker: ImportedBroker, image: MetadataImage, own: Path, how: How) -> Iterator[Step]:
    """What must be taken for one broker into its own directory; makes the directories of its partitions."""
    for directory in broker.directories:
        for place in directory.partitions:
            source = _of(directory, image, place)
            if source is None or broker.new_id not in image.topics[place[0]].partitions[place[1]].replicas:
                continue
            stable = -1
            if directory.broker_epoch is not None:  # else recovery may cut anywhere after the recovery point
                names = (checkpoints.RECOVERY_POINT, checkpoints.REPLICATION_OFFSET)
                stable = min(directory.offset(name, place) for name in names)
            target = own / f"{place[0]}-{place[1]}"
            target.mkdir(parents=True)
            yield from steps(source, target, how, stable)


def carry_out(taken: list[Step]) -> int:
    """Takes all the files, under a progress bar; how many bytes of them were linked."""
    with progress("Taking over") as bar:
        task = bar.add_task("", total=sum(step.size_bytes for step in taken))
        return sum(step.size_bytes for step in taken if take(step, partial(bar.advance, task)))


def write_own_files(
    broker: ImportedBroker, image: MetadataImage, own: Path, unmade: Collection[TopicPartition] = frozenset()
) -> None:
    """What is about the directory itself: its identity, and the checkpoints of what it holds now."""
    own.mkdir(parents=True, exist_ok=True)
    identity = checkpoints.format_meta_properties(image.cluster_id, broker.new_id, broker.directory_id)
    staging.write(own, checkpoints.META_PROPERTIES, identity)
    held = {place for folder in files.partitions(own) if (place := files.partition_of(folder))}
    for name in files.OFFSET_CHECKPOINTS:
        offsets = {
            place: offset
            for directory in broker.directories
            for place, offset in directory.offsets.get(name, {}).items()
            if place in held
        }
        if name == checkpoints.RECOVERY_POINT:
            offsets |= dict.fromkeys(held.intersection(unmade), 0)
        staging.write(own, name, checkpoints.format_offsets(offsets))
    if broker.closed_epoch >= 0:
        marker = checkpoints.format_clean_shutdown(checkpoints.CleanShutdown(broker.closed_epoch))
        staging.write(own, checkpoints.CLEAN_SHUTDOWN, marker)


def _begin(image: MetadataImage, working: Path) -> None:
    """Gives the controller the image, by its own command: the command line knows no table of the database."""
    snapshot = encode_snapshot(image, SystemClock().wall_ms())
    path = working / _SNAPSHOT_FILE
    path.write_bytes(snapshot.data)
    options = ["--snapshot", str(path), "--end-offset", str(snapshot.end_offset), "--epoch", str(max(image.epoch, 1))]
    controller("begin-with", [*options, "--data", str(working)], "Nothing was imported")
    path.unlink()


def controller(command: str, options: list[str], otherwise: str) -> None:
    """Runs an offline command of the controller; UpRefused, with what it says."""
    said = StringIO()
    with redirect_stderr(said):
        status = find_role("controller")().commands[command](options)
    if status:
        why = said.getvalue().strip().removeprefix("tailrace: ").rstrip(".")
        raise UpRefused(f"{otherwise}: {why}. Run the same command again when that is mended.")


def open_transactions(brokers: list[ImportedBroker], target: Path) -> list[tuple[TopicPartition, int]]:
    """The partitions with open transactions, each with the first one's offset."""
    found: dict[TopicPartition, int] = {}
    for broker in brokers:
        for folder in files.partitions(_own(target, broker)):
            place, first_offset = files.partition_of(folder), first_open_transaction(RealFilesystem(), str(folder))
            if place is not None and first_offset is not None:
                found[place] = min(first_offset, found.get(place, first_offset))
    return sorted(found.items())


def sources_of(found: list[KafkaDirectory], taken: list[Step]) -> dict[Path, list[str]]:
    """The directories, each with the names of its partitions that were taken."""
    folders = {step.source.parent for step in taken}
    return {
        directory.path: sorted(folder.name for folder in folders if folder.parent == directory.path)
        for directory in found
    }


def _summary(
    image: MetadataImage, brokers: list[ImportedBroker], taken: list[Step], linked: int, target: Path
) -> Iterator[str]:
    partitions = sum(len(topic.partitions) for topic in image.topics.values())
    size = sum(step.size_bytes for step in taken)
    yield (
        f"Imported cluster {image.cluster_id}: {counted(len(image.topics), 'topic')}, "
        f"{counted(partitions, 'partition')}, {counted(size, 'byte')} ({linked} of them linked)."
    )
    if copied := sum(step.size_bytes for step in taken if step.link) - linked:
        yield f"{counted(copied, 'byte')} could not be linked, so they were copied: is it another file system?"
    renamed = [f"{broker.old_id} is now {broker.new_id}" for broker in brokers if broker.old_id != broker.new_id]
    if renamed:
        yield f"Brokers count from 0 here: {', '.join(renamed)}."
    number = f" --brokers {len(brokers)}" if len(brokers) > 1 else ""
    yield f"Start it with: tailrace up --data {target}{number}"


def _report_missing(image: MetadataImage, brokers: list[ImportedBroker]) -> Iterator[str]:
    """Replicas out of sync that are nowhere: their disk had failed, or it was not named."""
    for broker in brokers:
        missing = [
            f"{name}-{index}"
            for name, topic in image.topics.items()
            for index, partition in enumerate(topic.partitions)
            if broker.new_id in partition.replicas and not _held(broker.directories, image, (name, index))
        ]
        if missing:
            yield (
                f"Broker {broker.old_id} comes without {counted(len(missing), 'replica')} ({_named(missing)}) and will "
                "copy what the others have: if an entry of its log.dirs was left out, name it and import anew."
            )


def report_older(image: MetadataImage, brokers: list[ImportedBroker]) -> Iterator[str]:
    """Brokers that come with directories of an earlier life: they are out of sync, as in Kafka."""
    older = {broker.new_id for broker in brokers if broker.is_older}
    alone = [
        f"{name}-{index}"
        for name, topic in image.topics.items()
        for index, partition in enumerate(topic.partitions)
        if older and older.issuperset(partition.eligible_leader_replicas)
    ]
    for broker in brokers:
        if broker.is_older:
            epochs = ", ".join(f"{found.path}: {found.broker_epoch}" for found in broker.directories)
            yield (
                f"Broker {broker.old_id} was not closed at the end of its last life, broker epoch "
                f"{broker.registered_epoch} ({epochs}); an older backup? Its replicas will copy what the others have."
            )
    if alone:
        yield (
            f"Nobody else was in sync in {counted(len(alone), 'partition')} ({_named(alone)}): what was written "
            "after that is lost there."
        )


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more


def _report_left_out(records: dict[str, int], configs: list[tuple[tuple[int, str], str]]) -> Iterator[str]:
    for name, count in records.items():
        if count > 0:
            yield f"Left out: {counted(count, name)}, which Tailrace has no place for yet."
    for (kind, resource), name in configs[:_NAMED_MAX]:
        what = known_configs.RESOURCE_NAMES.get(kind, f"resource type {kind}")
        yield f"Left out: {name} of {what} {resource or '(default)'}, which Tailrace does not know."
    if len(configs) > _NAMED_MAX:
        yield f"Left out: {counted(len(configs) - _NAMED_MAX, 'more config')}."


def _report_kept(image: MetadataImage, brokers: int) -> Iterator[str]:
    """What came along and may surprise: quotas of users that nobody is, or of each broker; a default below `up`'s."""
    waiting = sum(dict(entity).get("user") is not None for entity in image.quotas)
    if waiting:
        yield f"Kept, but without TLS clients are the user ANONYMOUS: {counted(waiting, 'quota')} for users by name."
    if image.quotas and brokers > 1:
        yield (
            "Kept, but it held for each broker in Kafka, and holds for the whole cluster here: "
            f"{counted(len(image.quotas), 'quota')}; `--set quota.scope=broker` keeps what it was."
        )
    least = image.config(ConfigResource.BROKER, ALL_BROKERS).get(_MIN_ISR)
    if least == "1" and brokers > _MIN_ISR_BROKERS:
        yield (
            f"{_MIN_ISR}=1 came along as the default of all brokers (Kafka writes it into each new cluster) and holds "
            "where a topic sets none, before the 2 of `tailrace up`: `kafka-configs.sh --alter --entity-type brokers "
            f"--entity-default --delete-config {_MIN_ISR}` takes it away."
        )


def _report_open(found: list[tuple[TopicPartition, int]]) -> Iterator[str]:
    """Their producers may go on; those that do not are aborted, where a coordinator knows of them."""
    if not found:
        return
    named = _named([f"{topic}-{index} at offset {offset}" for (topic, index), offset in found])
    yield (
        f"Transactions were open in {named}. Readers at read_committed stop there until the producer ends its "
        "transaction, or it is aborted after its timeout; `tailrace transaction find-hanging` names those that hang."
    )
