"""One machine with one disk, one log directory and one partition, and all that may happen to them."""

from __future__ import annotations

import errno
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from uuid import UUID

from sim.log.checker import Checker
from sim.log.decay import decay
from sim.log.model import Model, Violation
from sim.log.producers import Client, Sent
from tailrace.errors import ErrorCode
from tailrace.log.compaction import plan
from tailrace.log.compaction.rewrite import Compaction
from tailrace.log.config import LogConfig
from tailrace.log.directory.log_dir import LogDir
from tailrace.log.filesystem.checkpoints import DISK_FAILED
from tailrace.log.filesystem.guard import Guard
from tailrace.log.filesystem.memory import CHANGES, MemoryFilesystem
from tailrace.log.filesystem.pending_deletions import remove_paths
from tailrace.log.filesystem.port import Filesystem
from tailrace.log.flush import Flush
from tailrace.log.log import Log, LogAppendResult
from tailrace.records.batch import read_header, stamp

TOPIC, TOPIC_ID, DIRECTORY = "topic", UUID(int=7), "/logs"
PLACE = (TOPIC, 0)
FOREVER = 2**63 - 1
DECAYS = 0.4  # how often a start is tried with a flipped bit
GUARDED = 0.5  # how many worlds have the disk under guard
NOT_WRITTEN = 0.05  # how often, between two events, the kernel cannot write back what nobody has synced
DISK_ERRORS = (errno.EIO, errno.ENOSPC, errno.EROFS)


def settings(dice: random.Random) -> LogConfig:
    """A topic's configuration, small enough that everything happens often."""
    return LogConfig(
        segment_bytes=dice.choice((500, 900, 3000)),
        segment_ms=dice.choice((20_000, FOREVER)),
        segment_index_bytes=dice.choice((40, 10_000)),
        index_interval_bytes=dice.choice((1, 120, 400)),
        retention_ms=dice.choice((30_000, -1)),
        retention_bytes=dice.choice((2500, -1)),
        file_delete_delay_ms=dice.choice((0, 10_000)),
        flush_messages=dice.choice((1, 6, FOREVER)),
        flush_ms=dice.choice((5000, FOREVER)),
        message_timestamp_type=dice.choice(("CreateTime", "CreateTime", "LogAppendTime")),
        cleanup_policy=dice.choice(("delete", "delete", "delete", "compact", "compact,delete")),
        delete_retention_ms=dice.choice((0, 8000)),
        min_cleanable_dirty_ratio=dice.choice((0.0, 0.5)),
    )


@dataclass
class InThread:
    """Work that another thread has begun, and how it ends for the log."""

    flush: Flush | None = None
    checkpoint: Callable[[], None] | None = None
    checkpoint_start: int = 0
    compaction: Compaction | None = None
    steps: Iterator[None] | None = None


class Machine:
    """The engine runs as in a broker: one thread uses the log, others sync, write checkpoints and compact."""

    def __init__(self, dice: random.Random, say: Callable[[str], None]) -> None:
        self.dice = dice
        self.say = say
        self.now_ms = 1_000_000
        self.config = settings(dice)
        self.filesystem = MemoryFilesystem()
        self.filesystem.page_bytes = dice.choice((32, 256, 4096))
        self.filesystem.failed_sync_empties_cache = dice.random() < 0.5
        self.filesystem.torn = lambda length: dice.randrange(length + 1)
        self.model = Model(
            exact="compact" not in self.config.cleanup_policy,
            now_ms=self.now_ms,
            delete_retention_ms=self.config.delete_retention_ms,
        )
        self.checker = Checker(self.model, dice)
        self.clients = [Client(producer_id) for producer_id in (-1, 0, 1, 2)]
        self.epoch = 0
        self.leads = True
        self.high_watermark = 0
        self.unsure = False
        self.gone = False  # what was not flushed may be, at the next start
        self.unwritten = False  # the kernel has failed to write back since the machine started, and may not have told
        self.faulty = dice.choice((0.0, 0.3, 1.0))  # how much goes wrong in this world
        self.faults = self.acknowledged = self.compactions = self.decays = 0
        self.decay_dice = random.Random(dice.getstate()[1][0])  # its own: a world is the same without
        self.cache_dice = random.Random(dice.getstate()[1][1])
        # As a broker opens it, the first failure ends the process; without it the log goes on as far as it can.
        self.guarded = self.cache_dice.random() < GUARDED
        self.say(f"{self.config}")
        self.open()

    # -- life --------------------------------------------------------------------------------------------------------

    def decay(self) -> None:
        """What a flipped bit would do at the coming start."""
        dense = self.model.exact and "compact" not in self.config.cleanup_policy

        def opened(filesystem: MemoryFilesystem) -> tuple[LogDir, Log]:
            logs = LogDir.open(filesystem, DIRECTORY, node_id=0, cluster_id="sim", now_ms=self.now_ms)
            return logs, logs.create(TOPIC, 0, TOPIC_ID, self.config)

        self.say(f"   on a copy flips {decay(self.filesystem, self.decay_dice, opened, dense=dense)}")
        self.decays += 1

    def open(self, *, clean: bool = False) -> None:
        """A process starts; the log is recovered if need be."""
        self.threads = InThread()
        disk: Filesystem = Guard(self.filesystem) if self.guarded else self.filesystem
        self.logs = LogDir.open(disk, DIRECTORY, node_id=0, cluster_id="sim", now_ms=self.now_ms)
        if self.logs.last_shutdown.failure:
            self.say(
                f"   {self.logs.last_shutdown.reread_bytes} bytes are read again: {self.logs.last_shutdown.failure}"
            )
            self.filesystem.failed_syncs, self.unwritten = 0, False
        if clean and not self.logs.last_shutdown.clean:
            raise Violation("a clean shutdown was not taken for one")
        self.logs.measure_tails(at_once_bytes=0)
        if PLACE in self.logs.tails:  # as a broker's threads do it
            recovery = self.logs.begin_recovery(TOPIC, 0, self.config)
            recovery.run()
            self.logs.finish_recovery(recovery)
        self.log: Log = self.logs.create(TOPIC, 0, TOPIC_ID, self.config)

    def recover(self, *, power: bool, clean: bool = False) -> None:
        """Starts again and sees what is left. Reading begins where it began, or later."""
        self.gone = self.gone or power
        if self.decay_dice.random() < DECAYS:
            self.decay()
        self.open(clean=clean)
        model, log = self.model, self.log
        if log.log_start_offset < model.durable_start:
            raise Violation(f"the log starts at {log.log_start_offset}: a checkpoint had said {model.durable_start}")
        if clean and log.log_start_offset != model.start:
            raise Violation(f"the log starts at {log.log_start_offset}, before the clean shutdown at {model.start}")
        model.start = log.log_start_offset
        # A shutdown that did not come to its end may have flushed, a cut or a reset may not have begun.
        unsure, self.unsure = self.unsure, False
        if unsure:
            model.promised = max(model.promised, log.recovery_point)
        model.settle(self.checker.walk(log), log.log_end_offset, power=self.gone)
        self.gone = False
        if unsure:
            model.promised = max(model.promised, log.recovery_point)
        self.say(f"   the log is [{log.log_start_offset}, {log.log_end_offset}), {len(log.segments.bases)} segments")
        self.high_watermark = min(max(self.high_watermark, log.log_start_offset), log.log_end_offset)
        self.epoch = max(self.epoch, log.epochs.latest)
        if clean:
            model.maybe.clear()
        self.checker.recalled = True
        self.reconcile()
        self.look_closely()

    def reconcile(self) -> None:
        """The clients hear where the log ends; what was cut they send again or forget."""
        for client in self.clients:
            entry = self.log.producers.entries.get(client.producer_id)
            in_transaction = entry is not None and entry.current_txn_first_offset >= 0
            if self.model.exact:
                epoch, batches = self.model.producer(client.producer_id)
            else:
                epoch, batches = (entry.producer_epoch, list(entry.batches)) if entry is not None else (-1, [])
            client.reconcile(epoch, batches, in_transaction=in_transaction)

    def look(self) -> None:
        """After every event."""
        self.checker.look(self.log, self.high_watermark)

    def look_closely(self) -> None:
        """After every recovery and compaction."""
        self.look()
        if not self.model.exact:
            self.checker.compacted([self.checker.batch(data) for data in self.checker.walk(self.log)])

    def kill(self) -> None:
        """kill -9: what was written is there."""
        self.end_process()
        self.recover(power=False)

    def end_process(self) -> None:
        """Kills it. After a failed sync the cache may show what no disk has: a start must be told, or the power go."""
        filesystem = self.filesystem
        marked = f"{DIRECTORY}/{DISK_FAILED}" in filesystem.files()
        self.gone = self.gone or filesystem.failed_syncs > 0 or (marked and self.unwritten)
        if filesystem.failed_syncs and not marked and not filesystem.failed_sync_empties_cache:
            # Nobody guards this disk, it took no mark, or the kill came just before it.
            self.say("the process is killed, and the power fails")
            filesystem.crash(self.dice)
        else:
            self.say("the process is killed")
            filesystem.kill()

    def lose_power(self) -> None:
        """What was not synced is lost, torn or kept."""
        self.say("the power fails")
        self.filesystem.crash(self.dice)
        self.recover(power=True)

    def restart(self) -> None:
        """A clean shutdown, after which even the power may fail."""
        self.say("a clean restart")
        self.unsure = True
        self.logs.close(broker_epoch=9)
        self.unsure = False
        self.checkpointed(self.log.log_start_offset)
        self.model.promised = self.model.end
        power = self.dice.random() < 0.5
        if power:
            self.filesystem.crash(self.dice)
        else:
            self.filesystem.kill()
        self.recover(power=power, clean=True)

    def stop_soon(self, most_calls: int = 60) -> None:
        """The machine will stop in the middle of one of its next calls."""
        calls = self.dice.randrange(most_calls)
        self.say(f"the machine will stop after {calls} calls")
        self.faults += 1
        self.filesystem.stop_after(calls)

    def stopped(self) -> None:
        """It stopped; what began again may stop as well."""
        if self.dice.random() < 0.3:
            self.end_process()
            self.say("   it stopped, and stops once more as it starts")
            self.filesystem.stop_after(self.dice.randrange(40))
            self.recover(power=False)
        elif self.dice.random() < 0.4:
            self.kill()
        else:
            self.lose_power()

    # -- disk faults -------------------------------------------------------------------------------------------------

    def break_disk(self) -> None:
        """One coming call fails, or all that change the disk do from now on."""
        error = OSError(self.dice.choice(DISK_ERRORS), "the disk fails")
        self.faults += 1
        if self.dice.random() < 0.3:
            self.say(f"every change of the disk fails: {error}")
            self.filesystem.fail_all(error)
        else:
            operation = self.dice.choice((*CHANGES, "write", "sync", "open", "read"))
            after = self.dice.randrange(4)
            self.say(f"a {operation} will fail after {after} more: {error}")
            self.filesystem.fail_next(operation, error, after)

    def heal(self) -> None:
        """The disk works again, and nobody noticed."""
        self.filesystem.heal()

    def not_written(self) -> None:
        """Now and then the kernel fails to write a file's pages back, and tells whoever syncs it next."""
        if self.guarded and self.faulty and self.cache_dice.random() < NOT_WRITTEN:
            path = self.cache_dice.choice([path for path in self.filesystem.files() if f"/{TOPIC}-0/" in path])
            self.say(f"{path} cannot be written back")
            self.faults += 1
            self.unwritten = True
            self.filesystem.fail_to_write_back(path)

    def offline(self, failed: OSError) -> None:
        """A failed write or sync takes the directory offline (KIP-858): the log is not used before a new start."""
        self.say(f"   offline: {failed}")
        filesystem = self.filesystem
        filesystem.heal()
        if self.dice.random() < (0.8 if self.guarded else 0.5):
            self.kill()
        else:
            self.lose_power()

    # -- appends -----------------------------------------------------------------------------------------------------

    def append(self) -> None:
        """What several producers have sent is appended with one call, as a leader or as a follower."""
        if self.leads:
            self.produce()
        else:
            self.replicate()
        if self.log.log_end_offset - self.log.recovery_point >= self.config.flush_messages:
            self.flush_now()

    def produce(self) -> None:
        """The leader's append: some batches are sent again, some out of order."""
        keyed = not self.model.exact
        clients = [self.dice.choice(self.clients) for _ in range(self.dice.randrange(1, 5))]
        for client in clients:
            if self.knows_a_marker_alone(client):
                client.take_next_epoch()
        sent = [client.next(self.dice, self.now_ms, keyed=keyed, known=self.known(client)) for client in clients]
        buffers = [bytearray(one.data) for one in sent]
        left = list(zip(sent, buffers, strict=True))
        try:
            for internal, group in groupby(left[:], lambda pair: pair[0].internal):
                if not self.send(list(group), internal=internal, left=left):
                    break
        except BaseException:
            for _, buffer in left:
                self.model.begin(buffer)
            raise
        for one, _ in left:
            one.client.unsent(one)
        for client in self.clients:
            client.settle()
        self.raise_high_watermark()

    def send(self, group: list[tuple[Sent, bytearray]], *, internal: bool, left: list[tuple[Sent, bytearray]]) -> bool:
        """One call of append; takes what was answered from what is left. False if the disk refused some of it."""
        answers = self.log.append([buffer for _, buffer in group], self.epoch, self.now_ms, from_client=not internal)
        self.say(f"append {[one.about for one, _ in group]} -> {[(a.error_code, a.base_offset) for a in answers]}")
        valid = True
        for (one, buffer), answer in zip(group, answers, strict=True):
            del left[0]
            if one.client.answered(one, answer):
                self.take(buffer, answer)
            elif answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                self.model.begin(buffer)  # some of it may be on the disk
                valid = False
        return valid

    def knows_a_marker_alone(self, client: Client) -> bool:
        """Whether retention left a marker of the client's epoch and no batch: as in Kafka its next is to be number 0.

        A client hears OUT_OF_ORDER_SEQUENCE_NUMBER then, and takes the next epoch.
        """
        entry = self.log.producers.entries.get(client.producer_id)
        return entry is not None and not entry.batches and entry.producer_epoch == client.epoch

    def known(self, client: Client) -> bool:
        """Whether the log remembers batches of the client's epoch."""
        entry = self.log.producers.entries.get(client.producer_id)
        return entry is not None and bool(entry.batches) and entry.producer_epoch == client.epoch

    def take(self, buffer: bytearray, answer: LogAppendResult) -> None:
        """The batch was acknowledged."""
        self.acknowledged += 1
        header = read_header(buffer)
        if (header.base_offset, header.last_offset) != (answer.base_offset, answer.last_offset):
            raise Violation(f"the batch at {header.base_offset} was answered {answer}")
        self.model.take(buffer)

    def replicate(self) -> None:
        """The follower's append: a leader's batches, of which compaction there may have taken some."""
        offset, pieces = self.log.log_end_offset, list[bytes]()
        for _ in range(self.dice.randrange(1, 5)):
            one = self.dice.choice(self.clients).next(self.dice, self.now_ms, keyed=not self.model.exact, known=False)
            gap = 0 if self.model.exact else self.dice.choice((0, 0, 3))
            data = bytearray(one.data)
            stamp(data, 0, offset + gap, self.epoch)
            one.client.wrote(one, offset + gap)
            pieces.append(bytes(data))
            self.model.begin(data)
            offset = read_header(data).next_offset
        try:
            self.log.append_replicated(b"".join(pieces), self.now_ms)
        finally:
            for piece in pieces:
                if read_header(piece).next_offset <= self.log.log_end_offset:
                    self.model.take(piece)
            self.say(f"replicated {len(pieces)} batches up to {self.log.log_end_offset}")
        self.raise_high_watermark()

    def raise_high_watermark(self) -> None:
        """Alone the leader's is the log end; with followers it moves on as it likes."""
        end = self.log.log_end_offset
        self.high_watermark = self.dice.choice((end, self.dice.randrange(self.high_watermark, end + 1)))

    # -- roles -------------------------------------------------------------------------------------------------------

    def lead(self) -> None:
        """An epoch begins at the log end."""
        self.epoch += self.dice.randrange(1, 3)
        self.leads = True
        self.say(f"leads in epoch {self.epoch}")
        self.log.note_epoch(self.epoch, self.log.log_end_offset)

    def follow(self) -> None:
        """Another leads: what it does not have is cut, down to the high watermark at most."""
        self.epoch += self.dice.randrange(1, 3)
        self.leads = False
        low = max(self.high_watermark, self.log.log_start_offset)
        offset = self.dice.randrange(low, self.log.log_end_offset + 2)
        self.say(f"follows in epoch {self.epoch} and cuts at {offset}")
        self.truncate(offset)

    def truncate(self, offset: int) -> None:
        """A batch that holds the offset goes whole."""
        model = self.model
        gone = [batch for batch in model.batches if batch.header.next_offset > offset]
        for batch in gone:
            model.begin(batch.data)  # until it is done a crash may leave them
        end = min(offset, gone[0].header.base_offset if gone else model.end)
        model.cut(end)
        self.unsure = True  # where the disk refuses to lower the recovery point nothing is cut
        self.log.truncate_to(offset)
        self.unsure = False
        if not model.exact and end <= self.log.log_end_offset <= offset:
            model.end = self.log.log_end_offset  # compaction had taken the batch that held the offset
        model.start = min(model.start, self.log.log_end_offset)  # the batch began below it, as in Kafka
        if gone:
            model.maybe.clear()  # the cut was synced
        self.checker.recalled = True
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)
        self.reconcile()

    def begin_anew(self) -> None:
        """A follower whose offset is out of its leader's range."""
        if self.leads:
            return
        offset = self.log.log_end_offset + self.dice.randrange(1, 9)
        self.say(f"begins anew at {offset}")
        model = self.model
        for batch in model.batches:
            model.begin(batch.data)
        model.forget(offset)
        self.unsure = True
        self.log.reset_to(offset)
        self.unsure = False
        model.reset(offset)
        self.high_watermark = offset
        self.reconcile()

    # -- upkeep ------------------------------------------------------------------------------------------------------

    def begin_flush(self) -> None:
        """Hands out an fsync."""
        if self.threads.flush is None:
            self.threads.flush = self.log.begin_flush(self.now_ms, everything=self.dice.random() < 0.5)

    def finish_flush(self) -> None:
        """The fsync that was handed out has run in its thread."""
        flush, self.threads.flush = self.threads.flush, None
        if flush is not None:
            flush.run()
            self.log.finish_flush(flush)
            self.flushed()

    def flush_now(self) -> None:
        """flush.messages is reached: what was appended is acknowledged after this."""
        self.threads.flush = None
        self.log.flush(self.now_ms)
        self.flushed(everything=True)

    def flushed(self, *, everything: bool = False) -> None:
        """What the log says is on the disk."""
        if everything and self.log.recovery_point != self.log.log_end_offset:
            raise Violation(f"flushed to {self.log.recovery_point}, the log ends at {self.log.log_end_offset}")
        self.model.promised = max(self.model.promised, self.log.recovery_point)
        self.say(f"flushed up to {self.log.recovery_point}")

    def roll(self) -> None:
        """segment.ms has passed without an append."""
        self.say(f"rolls at {self.log.log_end_offset}")
        self.log.roll()

    def retain(self) -> None:
        """Retention, and the removal of what was due for it."""
        self.logs.high_watermarks[PLACE] = self.high_watermark
        self.logs.retention.apply(self.now_ms)
        self.moved_start()
        remove_paths(self.logs.guard, self.logs.pending_deletions.due(self.now_ms))

    def delete_records(self) -> None:
        """Up to somewhere below the high watermark; it is acknowledged when the disk has it."""
        offset = self.dice.randrange(self.log.log_start_offset, max(self.high_watermark, self.log.log_start_offset) + 1)
        self.say(f"records below {offset} are deleted")
        self.log.advance_log_start_offset(offset)
        self.moved_start()
        self.logs.begin_log_start_checkpoint(PLACE, self.log)()
        self.checkpointed(offset)

    def moved_start(self) -> None:
        """The log start is where it was, or later."""
        if self.log.log_start_offset < self.model.start:
            raise Violation(f"the log start went back from {self.model.start} to {self.log.log_start_offset}")
        self.model.start = self.log.log_start_offset
        self.model.highest_start = max(self.model.highest_start, self.model.start)

    def begin_checkpoint(self) -> None:
        """Takes the offsets down; a thread will write them."""
        self.logs.high_watermarks[PLACE] = self.high_watermark
        self.logs.note_offsets(PLACE)
        self.threads.checkpoint = self.logs.write_checkpoints
        self.threads.checkpoint_start = self.log.log_start_offset

    def finish_checkpoint(self) -> None:
        """The checkpoint that was taken down is written."""
        write, self.threads.checkpoint = self.threads.checkpoint, None
        if write is not None:
            write()
            self.checkpointed(min(self.threads.checkpoint_start, self.model.start))
            self.say("checkpoints are written")

    def checkpointed(self, start: int) -> None:
        self.model.durable_start = max(self.model.durable_start, start)

    def compact(self) -> None:
        """Some steps of a pass, or the beginning or the end of one."""
        threads = self.threads
        if threads.steps is None:
            threads.compaction = plan.begin(self.log, self.now_ms, self.high_watermark)
            threads.steps = threads.compaction.steps() if threads.compaction else None
            return
        steps = islice(threads.steps, self.dice.randrange(1, 6))
        if next(steps, FOREVER) != FOREVER:
            deque(steps, 0)
        elif threads.compaction is not None:
            compaction, threads.compaction, threads.steps = threads.compaction, None, None
            if self.faulty and self.dice.random() < 0.3:
                self.stop_soon(20)
            plan.finish(self.log, compaction)
            self.compactions += 1
            self.say(f"compacted up to {self.log.cleaned_offset}")
            self.look_closely()

    def pass_time(self) -> None:
        """The clock goes on."""
        self.now_ms += self.dice.choice((1, 100, 3000, 15_000))
        self.filesystem.now_ms = self.model.now_ms = self.now_ms
