"""One log directory (an entry of log.dirs): all its partitions, opened when first asked for, and its checkpoints."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from uuid import UUID, uuid4

from tailrace.kafka.ids import TopicPartition
from tailrace.log.config import LogConfig, LogSettings
from tailrace.log.directory.borrowed_log import BorrowedLog
from tailrace.log.directory.close import close_logs
from tailrace.log.directory.findings import Findings, Stray
from tailrace.log.directory.futures import FutureLogs
from tailrace.log.directory.offsets import DirOffsets
from tailrace.log.directory.opener import DAY_MS, LogOpener
from tailrace.log.directory.pending_recovery import AT_ONCE_BYTES, LongTails, Recovery, Tail, tail_of
from tailrace.log.directory.retention import DirRetention
from tailrace.log.directory.start import (
    LastShutdown,
    LogDirRefused,
    failure_before,
    own_directory,
    reread_after_failure,
    take_clean_shutdown,
)
from tailrace.log.directory.unopened import UnopenedLogs
from tailrace.log.directory.unopened_log import OF_ANY_POLICY, has_work
from tailrace.log.filesystem.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET,
    DISK_FAILED,
    LEADER_EPOCH,
    LOCK,
    PARTITION_METADATA,
    CleanShutdown,
    format_clean_shutdown,
    format_partition_metadata,
    one_bit_apart,
    topic_id_in,
)
from tailrace.log.filesystem.guard import Guard
from tailrace.log.filesystem.names import DELETE_SUFFIX, FUTURE_SUFFIX, STRAY_SUFFIX
from tailrace.log.filesystem.pending_deletions import PendingDeletions
from tailrace.log.filesystem.port import File, Filesystem, join, read_if_present, write_file_atomically
from tailrace.log.filesystem.real import RealFilesystem
from tailrace.log.log import Log
from tailrace.log.recovery.loader import RecoveryProgress

__all__ = ["LogDir", "LogDirRefused"]


class LogDir:
    """Open with LogDir.open; nothing is read of a partition before it is asked for."""

    def __init__(self, filesystem: Filesystem, path: str, lock: File | None, new_id: Callable[[], UUID]) -> None:
        self.path = path
        # Who opens the directory on a Guard has it taken offline by the first failure of its disk (KIP-858).
        self.guard = filesystem if isinstance(filesystem, Guard) else Guard(filesystem)
        self.directory_id = UUID(int=0)
        self.last_shutdown = LastShutdown()
        self.findings = Findings()
        self.evicted_producers = 0  # producer ids that were forgotten because a log had too many
        self.tails = LongTails()  # of the unopened: those that only a Recovery opens
        self.offsets = DirOffsets(filesystem, path)
        self.high_watermarks = self.offsets.high_watermarks  # as they will be checkpointed
        self._filesystem = filesystem
        self._lock = lock
        self._new_id = new_id
        self._logs: dict[TopicPartition, Log] = {}
        self._lent: dict[TopicPartition, BorrowedLog] = {}
        self._closing = False  # no log is opened any more, or the marker of a clean shutdown would not hold for it
        self._unopened = UnopenedLogs(filesystem, path)
        self._opener = LogOpener(filesystem, path, self.offsets, self._unopened, self.last_shutdown)
        self.pending_deletions = PendingDeletions()
        self.retention = DirRetention(self._logs, self.high_watermarks)
        self.futures = FutureLogs(filesystem, path, self.pending_deletions, self.offsets, new_id)

    @classmethod
    def open(
        cls,
        filesystem: Filesystem,
        path: str,
        *,
        node_id: int,
        cluster_id: str,
        now_ms: int,
        producer_id_expiration_ms: int = DAY_MS,
        new_id: Callable[[], UUID] = uuid4,
    ) -> LogDir:
        """Locks the directory and reads its checkpoints; LogDirRefused if it is another's or in use."""
        filesystem.make_directory(path)
        try:
            lock = filesystem.lock(join(path, LOCK))
        except BlockingIOError:
            raise LogDirRefused(f"the log directory {path} is in use by another process") from None
        log_dir = cls(filesystem, path, lock, new_id)
        log_dir.guard.mark = join(path, DISK_FAILED)
        log_dir._opener.producer_id_expiration_ms = producer_id_expiration_ms
        log_dir.directory_id = own_directory(filesystem, path, node_id, cluster_id, new_id)
        marker = take_clean_shutdown(filesystem, path)
        if marker is not None:
            log_dir.last_shutdown.clean = True
            log_dir.last_shutdown.broker_epoch, log_dir.last_shutdown.metadata_offset = marker
        log_dir._read_offsets()
        for name in filesystem.list(path):
            topic, _, partition = name.rpartition("-")
            if name.endswith(DELETE_SUFFIX):
                log_dir.pending_deletions.add(join(path, name))
            elif name.endswith(FUTURE_SUFFIX):
                log_dir.futures.found(name)
            elif topic and partition.isdigit():
                log_dir._unopened.keys.add((topic, int(partition)))
        log_dir.offsets.keep({*log_dir._unopened.keys, *log_dir.futures})
        log_dir._reread_after_failure()
        return log_dir

    @classmethod
    def unreadable(cls, path: str, failure: OSError) -> LogDir:
        """A directory that could not be opened: offline from the start, its id and partitions unknown."""
        log_dir = cls(RealFilesystem(), path, None, uuid4)
        log_dir.fail(failure)
        return log_dir

    @property
    def failure(self) -> OSError | None:
        """Why the directory is offline, None while it is not."""
        return self.guard.failure

    @property
    def readable(self) -> bool:
        """Whether it could be opened, so that its id and partitions are known."""
        return self.directory_id != UUID(int=0)

    def fail(self, failure: OSError) -> None:
        """Takes the directory offline until the next start."""
        self.guard.fail(failure)

    def _read_offsets(self) -> None:
        for name in self.offsets.by_name():
            mended, believed = self.offsets.read(name)
            if mended:
                self.findings.note_mended(name)
            if not believed:
                self.last_shutdown.clean = False  # no recovery point is believed: every log is checked completely
                self.last_shutdown.any_compacted |= name == CLEANER_OFFSET

    def _reread_after_failure(self) -> None:
        last = self.last_shutdown
        last.failure = failure_before(self._filesystem, self.path)
        if last.failure:
            last.clean, last.broker_epoch = False, -1
            points = self.offsets.recovery_points
            tails = [(self._opener.directory(key), points.get(key, 0)) for key in self._unopened.keys]
            tails += [(self.futures.folder(*key), 0) for key in self.futures]
            last.reread_bytes = reread_after_failure(self._filesystem, self.path, tails)

    # -- partitions --------------------------------------------------------------------------------------------------

    def partitions(self) -> list[TopicPartition]:
        """Every partition that has a directory here."""
        return sorted(self._unopened.keys | self._logs.keys() | self._lent.keys())

    def holds(self, topic: str, partition: int) -> bool:
        """Whether the partition has a directory here."""
        key = (topic, partition)
        return key in self._logs or key in self._unopened.keys or key in self._lent

    def unopened(self) -> list[TopicPartition]:
        """Those not opened yet; after an unclean shutdown they are still to be recovered."""
        return sorted(self._unopened.keys)

    @property
    def remaining_logs_to_recover(self) -> int:
        """Logs that an unclean shutdown left and that are neither recovered in a thread nor used since."""
        return 0 if self.last_shutdown.clean else len(self._unopened.keys)

    def open_logs(self) -> dict[TopicPartition, Log]:
        """The opened logs; do not change it."""
        return self._logs

    def topic_id(self, topic: str, partition: int) -> UUID | None:
        """What partition.metadata says, None without that file, or where a power cut left nothing in it."""
        return topic_id_in(self._filesystem, self._opener.directory((topic, partition)))

    def log(self, topic: str, partition: int) -> Log | None:
        """The partition's log, opened (and recovered) now if need be; None if there is none here."""
        log = self._logs.get((topic, partition))
        if log is None and self._closing:
            raise OSError(errno.ESHUTDOWN, "the log directory is being closed", self.path)
        if log is None and (topic, partition) in self._lent:
            raise BlockingIOError(errno.EAGAIN, "the log is being changed", self._opener.directory((topic, partition)))
        if log is None and (topic, partition) in self._unopened.keys:
            if (topic, partition) in self.tails:
                raise BlockingIOError(
                    errno.EAGAIN, "the log is being recovered", self._opener.directory((topic, partition))
                )
            log = self._open_log((topic, partition))
        return log

    def _open_log(self, key: TopicPartition) -> Log:
        log = self._opener.prepare(key)(RecoveryProgress())
        self._take_in_opened(key, log)
        return log

    def _take_in_opened(self, key: TopicPartition, log: Log) -> None:
        recovered = key in self._unopened.keys and not (self.last_shutdown.clean and key not in self._unopened.given_up)
        log.unsynced.metadata = recovered  # an earlier life may not have come to that
        self._take_in(key, log)
        if log.recovery_result.epochs_mended:
            self.findings.note_mended(f"{key[0]}-{key[1]}/{LEADER_EPOCH}")
        if recovered:
            self.findings.note_recovered(key, log)

    def _take_in(self, key: TopicPartition, log: Log) -> None:
        log.hooks.lower_checkpoint = partial(self.offsets.lower, key)
        log.hooks.on_producers_evicted = self._count_evicted
        log.segments.pending_deletions.move_to(self.pending_deletions, log.directory)
        log.segments.pending_deletions = self.pending_deletions
        log.segments.on_damage = partial(self.findings.note_damaged, key)
        for segment in log.segments:
            if segment.holes:
                self.findings.note_damaged(key, segment)
        self._forget_unopened(key)
        self._logs[key] = log

    def _count_evicted(self, count: int) -> None:
        self.evicted_producers += count

    def _forget_unopened(self, key: TopicPartition) -> None:
        self._unopened.forget(key)
        self.tails.waiting.pop(key, None)

    # -- logs that take long to recover -----------------------------------------------------------------------------

    def measure_tails(self, at_once_bytes: int = AT_ONCE_BYTES) -> None:
        """Finds what an unclean stop left and is longer than that; from then on only a Recovery opens these logs.

        Call it before anything else uses the directory; in a thread, as it may look at every log. Raises OSError.
        """
        for key in self.unopened():
            if not self.last_shutdown.clean or key not in self.offsets.recovery_points:
                tail = tail_of(self._filesystem, self._opener.directory(key), self.offsets.recovery_points.get(key, 0))
                if tail.size_bytes > at_once_bytes:
                    self.tails.waiting[key] = tail

    def begin_recovery(self, topic: str, partition: int, config: LogSettings) -> Recovery:
        """Of one of tails.waiting: have it run, in a thread, and then finish_recovery."""
        key = (topic, partition)
        self._configure(topic, config)
        recovery = Recovery(key, self.tails.waiting.pop(key), self._opener.prepare(key))
        self.tails.begun[key] = recovery
        return recovery

    def finish_recovery(self, recovery: Recovery) -> None:
        """Takes in what its run() opened. Where that failed, the log's next use says so."""
        key = recovery.key
        del self.tails.begun[key]
        if recovery.deleted_ms is not None:
            self.delete(*key, recovery.deleted_ms)
        elif recovery.log is not None:
            recovery.log.config = self._opener.settings.to_open(key[0])  # it may have changed meanwhile
            self._take_in_opened(key, recovery.log)

    # -- logs that another thread changes ---------------------------------------------------------------------------

    def lend(self, key: TopicPartition, change: Callable[[Log], None]) -> BorrowedLog:
        """Gives an open log to another thread; until take_back nobody here uses it."""
        loan = self._lent[key] = BorrowedLog(key, self._logs.pop(key), change)
        return loan

    def take_back(self, loan: BorrowedLog) -> None:
        """The thread has left the log. Raises OSError where it was to be deleted and cannot be.

        After a change that failed it is opened again, from its recovery point on, at its next use or by a Recovery.
        """
        del self._lent[loan.key]
        self._logs[loan.key] = loan.log
        if loan.failed:
            self._give_up(loan.key)
        if loan.deleted_ms is not None:
            self.delete(*loan.key, loan.deleted_ms)
        else:
            loan.log.config = self._opener.settings.get(loan.key[0]) or loan.log.config  # it may have changed meanwhile

    def _give_up(self, key: TopicPartition) -> None:
        """Forgets what an open log knows of its files."""
        log = self._logs.pop(key)
        self.offsets.note_at_most(key, log)
        if log.unflushed_bytes > AT_ONCE_BYTES:
            self.tails.waiting[key] = Tail(len(log.unflushed_segments()), log.unflushed_bytes)
        log.abandon()
        self._unopened.give_up(key)

    def lent(self, topic: str, partition: int) -> bool:
        """Whether another thread has the log."""
        return (topic, partition) in self._lent

    def create(self, topic: str, partition: int, topic_id: UUID, config: LogSettings) -> Log:
        """The partition's log, made if there is none; what is there of another topic id must be deleted first."""
        self._configure(topic, config)
        log = self.log(topic, partition)
        if log is None:
            key = (topic, partition)
            log = self._open_log(key)
            content = format_partition_metadata(topic_id)
            write_file_atomically(self._filesystem, log.directory, PARTITION_METADATA, content, sync=False)
            log.unsynced.metadata = True  # with the log's first flush
        return log

    def set_configs(self, configs: Mapping[str, LogSettings]) -> None:
        """Gives topics' open and later logs their settings; looks at every open log once."""
        self._opener.settings.update(configs)
        for (name, _), log in self._logs.items():
            if name in configs:
                log.config = configs[name]

    def _configure(self, topic: str, config: LogSettings) -> None:
        """As set_configs before a log is opened."""
        if self._opener.settings.learn(topic, config):
            self.set_configs({topic: config})

    @property
    def producer_id_expiration_ms(self) -> int:
        """How long open and later logs remember a producer."""
        return self._opener.producer_id_expiration_ms

    def set_producer_id_expiration(self, expiration_ms: int) -> None:
        """How long open and later logs remember a producer from now on."""
        self._opener.producer_id_expiration_ms = expiration_ms
        for log in self._logs.values():
            log.producer_id_expiration_ms = expiration_ms

    def claim(self, topic: str, partition: int, topic_id: UUID) -> None:
        """Makes sure that what lies here under the name is this topic's; what is another's is kept as a stray."""
        found = self.topic_id(topic, partition)
        if not self.holds(topic, partition) or found == topic_id:
            return
        directory, content = self._opener.directory((topic, partition)), format_partition_metadata(topic_id)
        if found is None or one_bit_apart(
            read_if_present(self._filesystem, join(directory, PARTITION_METADATA)) or b"", content
        ):
            write_file_atomically(self._filesystem, directory, PARTITION_METADATA, content)
        else:
            self.put_aside(topic, partition, "it has the id of another topic of that name")

    def put_aside(self, topic: str, partition: int, why: str) -> None:
        """The partition's directory is kept under another name, and never read."""
        self.findings.note_stray(Stray((topic, partition), self._take_away((topic, partition), STRAY_SUFFIX), why))

    def delete(self, topic: str, partition: int, now_ms: int) -> None:
        """Takes the partition's directory away; its files go after file.delete.delay.ms."""
        recovery = self.tails.begun.get((topic, partition))
        if recovery is not None:
            recovery.deleted_ms = now_ms
            recovery.stop()
            return
        loan = self._lent.get((topic, partition))
        if loan is not None:
            loan.deleted_ms = now_ms
            return
        target = self._take_away((topic, partition), DELETE_SUFFIX)
        config = self._opener.settings.get(topic) or LogConfig()
        self.pending_deletions.add(target, now_ms, config.file_delete_delay_ms)

    def _take_away(self, key: TopicPartition, suffix: str) -> str:
        """Forgets the partition, whose directory gets another name: its path."""
        log = self._logs.pop(key, None)
        if log is not None:
            log.abandon()
        self._forget_unopened(key)
        stem = f"{key[0][:200]}-{key[1]}.{self._new_id().hex}"  # a file name has at most 255 bytes
        target = join(self.path, stem + suffix)
        self._filesystem.rename(self._opener.directory(key), target)
        self.offsets.forget(key)
        return target

    @property
    def unsettled(self) -> bool:
        """Whether a partition was taken away of which the disk does not know for certain yet: see settle."""
        return bool(self.offsets.unsettled)

    def settle(self) -> None:
        """Makes sure that what was taken away is so after a crash, in a thread if you like. Raises OSError.

        A checkpoint that still names it would be believed of a later log of that name, so that log waits for this.
        """
        self.offsets.settle()

    # -- replicas that are moved here (KIP-113) ------------------------------------------------------------------

    def future_extent(self, topic: str, partition: int) -> tuple[int, int]:
        """As extent, of a copy on its way."""
        return self.futures.extent(topic, partition, self._opener.settings.get(topic) or OF_ANY_POLICY)

    def adopt_future(self, topic: str, partition: int, log: Log, high_watermark: int) -> None:
        """Makes the copy, which is complete and was marked, the partition's log. Waits for no disk: flush it then."""
        key = (topic, partition)
        self.futures.take_place(topic, partition, self._opener.directory(key))
        log.renamed(self._opener.directory(key))
        # No cleaned offset: what compaction dropped while the copy was made may be in it.
        self.high_watermarks[key] = high_watermark
        self._opener.settings.update({topic: log.config})
        # It may have changed while the copy was made.
        log.producer_id_expiration_ms = self.producer_id_expiration_ms
        self._take_in(key, log)

    def promote(self, topic: str, partition: int) -> None:
        """At the start: the copy is the partition's log."""
        self.futures.take_place(topic, partition, self._opener.directory((topic, partition)))
        self._filesystem.sync_directory(self.path)
        self._unopened.keys.add((topic, partition))

    def promote_orphans(self, elsewhere: Callable[[TopicPartition], bool]) -> None:
        """At the start, with every dir readable: a copy whose original is nowhere is the partition's log."""
        for key in [key for key in self.futures if not elsewhere(key)]:
            self.promote(*key)

    def extent(self, topic: str, partition: int) -> tuple[int, int]:
        """(latest leader epoch, log end offset) of a partition that lies here; opens its log."""
        log = self.log(topic, partition)
        assert log is not None
        return log.epochs.latest, log.log_end_offset

    # -- logs that nobody uses -----------------------------------------------------------------------------------

    def size_bytes(self, topic: str, partition: int) -> int:
        """Of the partition's .log files, without opening the log; 0 if there is none. Raises OSError."""
        loan = self._lent.get((topic, partition))
        log = self._logs.get((topic, partition)) if loan is None else loan.log
        if log is not None:
            return log.size_bytes
        known = self._unopened.listing((topic, partition))
        return 0 if known is None else known.size_bytes

    def begin_look(self, keys: Iterable[TopicPartition]) -> Callable[[], None]:
        """Call it, in another thread if you like: what is known of unopened logs is then at hand."""
        return self._unopened.begin_look(keys)

    def has_work(self, topic: str, partition: int, settings: LogSettings, now_ms: int) -> bool:
        """Whether retention or compaction may have something to do in a log that is not open.

        After an unclean shutdown always: its files may not be what they seem. Raises OSError.
        """
        key = (topic, partition)
        known = self._unopened.listing(key)
        if known is None or key in self.tails:
            return False  # not before it is recovered
        if not self._opener.was_closed(key):
            return True
        start_offset = self.offsets.log_start_offsets.get(key, 0)
        return has_work(known, settings, now_ms, start_offset, self.offsets.cleaned_offsets.get(key, 0))

    # -- upkeep ------------------------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Writes the recovery points, log start offsets and high watermarks as they are now."""
        for key in self._logs:
            self.note_offsets(key)
        self.write_checkpoints()

    def note_offsets(self, key: TopicPartition) -> None:
        """Takes note of what write_checkpoints is to say of a log, if it is open."""
        log = self._logs.get(key)
        if log is not None:
            self.offsets.note(key, log)

    def write_checkpoints(self) -> None:
        """Writes what was noted, in another thread if you like. Raises OSError."""
        self.offsets.write_all()

    def begin_log_start_checkpoint(self, key: TopicPartition, log: Log) -> Callable[[], None]:
        """The checkpoint of log start offsets, for a thread: after it no crash undoes a DeleteRecords (KIP-107).

        What a later call returns writes what earlier ones began, too. log may be a copy that is to take its place.
        """
        return self.offsets.begin_log_start(key, log)

    def begin_cleaner_checkpoint(self) -> Callable[[], None]:
        """The checkpoint of cleaned offsets, to be written in a thread."""
        self.offsets.note_cleaned(self._logs)
        return partial(self.offsets.write, CLEANER_OFFSET)

    def close(self, broker_epoch: int = -1, metadata_offset: int = -1) -> None:
        """Flushes every log, writes the checkpoints, then the clean-shutdown marker, and gives up the lock.

        Without the marker, as in Kafka, where a recovery was given up. Call it in a thread; other threads that had logs
        have ended, and nothing appends to one or deletes one any more. Raises OSError.
        """
        self._closing = True
        for loan in list(self._lent.values()):
            self.take_back(loan)
        # The marker vouches for every log, so those that nothing asked for are checked now.
        unchecked = self.unopened() if not self.last_shutdown.clean and not self.tails.given_up else []
        for key in unchecked or sorted(self._unopened.given_up):
            self._open_log(key)
        close_logs(self._filesystem, self.path, list(self._logs.values()))
        self.checkpoint()
        if not self.tails.given_up:
            marker = format_clean_shutdown(CleanShutdown(broker_epoch, metadata_offset))
            write_file_atomically(self._filesystem, self.path, CLEAN_SHUTDOWN, marker)
        self.release()

    def release(self) -> None:
        """Gives up the lock and leaves everything as it is, as after a failed start or a failure of the disk."""
        self._logs.clear()
        self._lent.clear()
        self._lock = None
