"""Replicas that move between the log dirs of this broker while they serve (AlterReplicaLogDirs, KIP-113).

The copy, a log in a `-future` folder of the other dir, is filled in a thread and throttled; once it lacks little it is
synced, and in one turn of the loop it gets the rest and takes the log's place. That rest is synced in a thread, too;
only then do the old files go, and a start in between believes the log that was written to longer. A restart in the
middle of the copy goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.log.compaction import plan
from tailrace.log.directory.disk_pressure import Level
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.log import Log
from tailrace.log.read import CACHED, NeedsPages, Records
from tailrace.log.segment.view import BackgroundScan
from tailrace_broker.directories.disk_pressure import DiskPressure
from tailrace_broker.directories.replica_dirs import ReplicaDirs
from tailrace_broker.directories.storage import Storage
from tailrace_broker.partitions.partition import Partition
from tailrace_broker.partitions.throttle import Throttle
from tailrace_broker.partitions.topics import Topics
from tailrace_broker.partitions.wakeups import WakeUps

_MOST_TRIES = 4
_PIECE_BYTES = 1 << 20
_LAST_BYTES = 4 << 20  # what the loop copies by itself at most, without waiting for the disk
_THROTTLED_MS = 1000.0
_STORAGE = ErrorCode.KAFKA_STORAGE_ERROR
_Walk: TypeAlias = Callable[[BackgroundScan, Callable[[OSError | None], None]], None]


class Move:
    """One replica on its way."""

    def __init__(self, partition: Partition, target: LogDir) -> None:
        self.partition = partition
        self.target = target
        self.future: Log | None = None
        self.left: LogDir | None = None  # where it lay, once it has moved and until the old files are gone
        self.then: LogDir | None = None  # where it shall go next
        self.task: asyncio.Task[None] | None = None
        self.opening: asyncio.Task[Log] | None = None  # of the copy, by a thread

    @property
    def lag(self) -> int:
        """Records that the copy lacks."""
        source = self.partition.opened
        if source is None or self.left is not None:
            return 0
        copied = source.log_start_offset if self.future is None else self.future.log_end_offset
        return max(0, source.log_end_offset - copied)

    @property
    def size_bytes(self) -> int:
        """Of what was copied."""
        return 0 if self.future is None else self.future.size_bytes


class DirMoves:
    """All moves of a broker; num.replica.alter.log.dirs.threads copy at the same time, the others wait in order."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        log: FilteringBoundLogger,
        *,
        storage: Storage,
        topics: Topics,
        wakeups: WakeUps,
        pressure: DiskPressure,
        replica_dirs: ReplicaDirs,
        rate: Callable[[], int],
        walk: _Walk,
    ) -> None:
        """walk: scans a segment in a thread."""
        self._walk = walk
        self._storage = storage
        self._topics = topics
        self._wakeups = wakeups
        self._pressure = pressure
        self._replica_dirs = replica_dirs
        self._clock = clock
        self._log = log
        self._room = asyncio.Semaphore(at_a_time(config, len(storage.configured)))
        self._throttle = Throttle(rate, clock.monotonic_ms)
        self._group: asyncio.TaskGroup | None = None
        self.moves: dict[Partition, Move] = {}
        self._given_up: list[Move] = []  # a thread may yet make their copy

    async def run(self) -> None:
        """Until cancelled; begins with what an earlier life left."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for move in list(self.moves.values()):
                self._start(move)
            self.resume()
            await asyncio.get_running_loop().create_future()

    def resume(self) -> None:
        """Goes on with the copies that lie in the dirs, also of partitions that only a later image has."""
        rows = self._topics.by_name
        for log_dir in self._storage.dirs:
            for topic, index in log_dir.futures:
                row = rows.get(topic.encode())
                partition = None if row is None else row.partitions.get(index)
                if partition is None or partition.offline or partition.recovering or partition in self.moves:
                    continue
                if any(move.partition is partition and move.target is log_dir for move in self._given_up):
                    continue
                self.move(partition, log_dir)

    def move(self, partition: Partition, target: LogDir) -> None:
        """Begins to move a replica; a move of it to another dir is given up."""
        present = self.moves.get(partition)
        if present is not None and present.left is not None:
            present.then = target  # it has moved: the old files go first
            return
        if present is not None and present.target is target:
            return
        self.cancel(partition)
        storage = self._storage
        if storage.place_of(partition.topic, partition.index) is target:
            return
        if partition.opened is None and storage.prefer(partition.topic, partition.index, target):
            self._replica_dirs.report(partition)
            return
        move = self.moves[partition] = Move(partition, target)
        self._start(move)

    def cancel(self, partition: Partition) -> None:
        """Gives a move up, if there is one."""
        move = self.moves.pop(partition, None)
        if move is not None:
            if move.task is not None:
                move.task.cancel()
            if move.opening is not None and not move.opening.done():
                self._given_up.append(move)
                move.opening.add_done_callback(lambda opened: self._opened_late(move, opened))
            if move.left is None:
                self._drop(move)
            elif move.target.failure is None:  # else what is left may be all there is, at the next start
                self._storage.take_away(_place(move), move.left)

    def dir_failed(self, log_dir: LogDir) -> None:
        """Gives up what is on its way there, also what waits for its turn or for the throttle."""
        for move in [move for move in self.moves.values() if move.target is log_dir and move.left is None]:
            partition = move.partition
            where = {"topic": partition.topic, "partition": partition.index, "log_dir": log_dir.path}
            self._log.error("a replica was not moved", **where, why=str(log_dir.failure))
            self.cancel(partition)

    def _start(self, move: Move) -> None:
        if self._group is not None and move.task is None:
            move.task = self._group.create_task(self._run(move))

    async def _run(self, move: Move) -> None:
        where = {"topic": move.partition.topic, "partition": move.partition.index, "log_dir": move.target.path}
        try:
            async with self._room:
                await self._carry(move)
        except (OSError, ApiError) as failed:
            self._log.error("a replica was not moved", **where, why=str(failed))
            if move.left is None:  # else the copy is the partition's log by now
                self._drop(move)
        else:
            self._log.info("a replica was moved", **where)
        if self.moves.get(move.partition) is move:
            del self.moves[move.partition]
            if move.then is not None:
                self.move(move.partition, move.then)

    def _drop(self, move: Move) -> None:
        with suppress(OSError):  # that dir is offline then
            move.target.futures.drop(move.partition.topic, move.partition.index, self._clock.wall_ms())
        if move.future is not None:
            move.future.abandon()

    async def _carry(self, move: Move) -> None:
        partition, target = move.partition, move.target
        source = partition.log
        plan.stop(source)  # and the cleaner begins none while the partition is in `moves`
        future = move.future = await self._open(move)
        if not _goes_on(source, future):
            future.reset_to(source.log_start_offset)
        await asyncio.to_thread(target.futures.mark, partition.topic, partition.index, ready=False)
        cuts = source.cuts
        while True:
            await self._copy_most(move, source, future, cuts)
            await asyncio.to_thread(future.flush)
            await asyncio.to_thread(target.futures.mark, partition.topic, partition.index, ready=True)
            start = min(source.log_start_offset, future.log_end_offset)
            future.advance_log_start_offset(start)
            await asyncio.to_thread(target.begin_log_start_checkpoint(_place(move), future))
            if source.cuts != cuts or future.log_end_offset < source.log_start_offset:
                future.reset_to(source.log_start_offset)
                target.futures.mark(partition.topic, partition.index, ready=False)
                cuts = source.cuts
            elif source.log_start_offset == start and self._copy_rest(source, future):
                move.left = self._swap(move, source, future)
                if await self._wakeups.flusher.everything(partition):
                    taken = self._storage.take_away(_place(move), move.left)
                    if await self._wakeups.flusher.settle(move.left) and taken:
                        self._storage.swept(_place(move), target)
                return

    async def _open(self, move: Move) -> Log:
        """The copy, opened in a thread, which goes on though the move is given up: then what it has made goes, too."""
        partition = move.partition
        move.opening = asyncio.create_task(
            asyncio.to_thread(
                move.target.futures.open,
                partition.topic,
                partition.index,
                partition.topic_id,
                self._storage.topic_config(partition.topic),
                self._clock.wall_ms(),
                producer_id_expiration_ms=move.target.producer_id_expiration_ms,
            )
        )
        return await asyncio.shield(move.opening)

    def _opened_late(self, move: Move, opened: asyncio.Task[Log]) -> None:
        """A broker that stops leaves the copy for its next life, and another move there goes on with it."""
        if not opened.cancelled():
            opened.exception()  # of a disk that failed: its guard has heard, and nobody else waits for it
        self._given_up.remove(move)
        if not any(other.target is move.target and _place(other) == _place(move) for other in self.moves.values()):
            self._drop(move)

    async def _copy_most(self, move: Move, source: Log, future: Log, cuts: int) -> None:
        """Copies until little is missing, or the original went back."""
        while source.cuts == cuts and source.log_start_offset <= future.log_end_offset < source.log_end_offset:
            self._check_room(move.target)
            try:
                piece = await _found(source, future.log_end_offset, self._walk)
                if not piece.length:
                    return
                await asyncio.to_thread(_append, future, piece, self._clock.wall_ms())
            except ApiError:
                if source.cuts == cuts and source.log_start_offset <= future.log_end_offset:
                    raise
                return  # the original was cut under the read
            self._pressure.appended(piece.length)
            self._throttle.charge(piece.length)
            if piece.length < _PIECE_BYTES // 2 and source.log_end_offset - future.log_end_offset < 100:
                return
            while (wait_ms := self._throttle.wait_ms()) > 0:
                await self._clock.sleep(min(wait_ms, _THROTTLED_MS))

    def _check_room(self, target: LogDir) -> None:
        """A copy that fills a disk would take it offline with all that lies there."""
        target.guard.check()
        pressure = self._pressure.dirs.get(target)
        if pressure is not None and pressure.level == Level.REFUSED:
            raise ApiError(_STORAGE, f"{target.path} has too little space")

    def _copy_rest(self, source: Log, future: Log) -> bool:
        """Copies what came meanwhile, on the loop, if that is little; whether the copy is complete."""
        left = _LAST_BYTES
        while future.log_end_offset < source.log_end_offset and left > 0:
            piece = source.read(future.log_end_offset, min(left, _PIECE_BYTES))
            if not piece.length:
                raise ApiError(_STORAGE, f"nothing to read at {future.log_end_offset} of {source.directory}")
            _append(future, piece, self._clock.wall_ms())
            left -= piece.length
        return future.log_end_offset == source.log_end_offset

    def _swap(self, move: Move, source: Log, future: Log) -> LogDir:
        """In one turn of the loop, so that nothing is appended or read in between; the dir it lay in."""
        partition = move.partition
        if partition.opened is not source or partition.offline:
            raise ApiError(_STORAGE, "the replica is gone, or its disk failed")
        for epoch, start_offset in source.epochs.entries():
            future.note_epoch(epoch, start_offset)
        future.producers = source.producers
        future.config = source.config
        left = self._storage.swap(partition.topic, partition.index, move.target, future, partition.high_watermark)
        partition.take_over(future)
        partition.advance()
        self._wakeups.committed(partition)
        self._replica_dirs.report(partition)
        return left


def _place(move: Move) -> tuple[str, int]:
    return move.partition.topic, move.partition.index


def at_a_time(config: Config, dirs: int) -> int:
    """How many moves copy at the same time: as in Kafka one for each log dir, unless the config says."""
    return config.num_replica_alter_log_dirs_threads or dirs


async def _found(source: Log, offset: int, walk: _Walk) -> Records:
    """What is copied next.

    Threads bring the pages that must be looked at to find it, as long as memory keeps them, and scan a segment that has
    to be scanned for it, as one with a lost index.
    """
    for _ in range(_MOST_TRIES):
        found = source.read(offset, _PIECE_BYTES, None, True, CACHED)
        if isinstance(found, Records):
            return found
        if isinstance(found, NeedsPages):
            piece = found.slice
            await asyncio.to_thread(piece.file.warm, piece.length, piece.position)
        elif isinstance(found.scan, BackgroundScan):
            await _scanned(found.scan, walk)
    return source.read(offset, _PIECE_BYTES)


async def _scanned(scan: BackgroundScan, walk: _Walk) -> None:
    ended: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    walk(scan, lambda error: None if ended.done() else ended.set_result(error))  # it is done if the move is given up
    if (error := await ended) is not None:
        raise error


def _append(future: Log, piece: Records, now_ms: int) -> None:
    future.append_replicated(piece.read(), now_ms)


def _goes_on(source: Log, future: Log) -> bool:
    """Whether a copy that an earlier life left is a beginning of the log as it is now."""
    end = future.log_end_offset
    if source.limits.compact or not source.log_start_offset <= end <= source.log_end_offset:
        return False
    return end == future.log_start_offset or source.epochs.epoch_at(end - 1) == future.epochs.epoch_at(end - 1)
