"""A log under seeded work and crashes: what a flush covered is there, the rest is a prefix, offsets are dense."""

import errno
import random
from uuid import UUID

import pytest

from support.logs import NOW, records_of, some_batch, with_settings
from tailrace.log.flush import Flush
from tailrace.log.log import Log
from tailrace.log.logs import LogDir
from tailrace.log.memory import MemoryFilesystem
from tailrace.records.compression import Codec

SETTINGS = with_settings(segment_bytes=900, index_interval_bytes=120, retention_ms=2**62, file_delete_delay_ms=0)
TOPIC_ID = UUID(int=7)


class World:
    """One log dir with one partition, a model of what was acknowledged, and dice."""

    def __init__(self, seed: int) -> None:
        self.choice = random.Random(seed)
        self.filesystem = MemoryFilesystem()
        self.model: list[bytes] = []
        self.promised = 0  # a finished flush has covered the offsets below
        self.sequence = 0
        self.open()

    def open(self) -> None:
        self.logs = LogDir.open(self.filesystem, "/logs", node_id=0, cluster_id="sim", now_ms=NOW)
        self.log: Log = self.logs.create("topic", 0, TOPIC_ID, SETTINGS)
        self.flush: Flush | None = None

    def append(self) -> None:
        if self.choice.random() < 0.05:
            self.filesystem.fail_next("write", OSError(errno.ENOSPC, "full"), after=self.choice.randrange(2))
        batches, values = [], []
        for _ in range(self.choice.randrange(1, 5)):
            mine = [self.choice.randbytes(self.choice.randrange(60)) for _ in range(self.choice.randrange(1, 4))]
            fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": self.sequence}
            batches.append(some_batch(*mine, codec=self.choice.choice(list(Codec)), **fields))
            values.append(mine)
            self.sequence += len(mine)
        answers = self.log.append(batches, 0, NOW)
        self.filesystem.heal()
        for answer, mine in zip(answers, values, strict=True):
            if answer.error_code == 0:
                assert answer.base_offset == len(self.model)
                self.model += mine
            else:
                # The producer goes on with the first sequence that was not taken.
                self.sequence = len(self.model)

    def begin_flush(self) -> None:
        self.flush = self.log.begin_flush(NOW, everything=self.choice.random() < 0.7)

    def finish_flush(self) -> None:
        if self.flush is not None:
            flush, self.flush = self.flush, None
            flush.run()
            self.log.finish_flush(flush)
            self.promised = max(self.promised, flush.offset)
            assert self.log.recovery_point >= flush.offset

    def roll(self) -> None:
        self.log.roll()

    def checkpoint(self) -> None:
        self.logs.high_watermarks["topic", 0] = self.log.log_end_offset
        self.logs.checkpoint()

    def restart(self) -> None:
        self.logs.close(broker_epoch=9)
        self.promised = len(self.model)
        self.open()
        assert self.logs.clean and self.logs.clean_shutdown_epoch == 9
        self.check(exact=True)

    def kill(self) -> None:
        self.filesystem.kill()
        self.logs.release()
        self.open()
        assert not self.logs.clean
        self.check(exact=True)

    def lose_power(self) -> None:
        self.filesystem.crash(self.choice)
        self.logs.release()
        self.open()
        assert not self.logs.clean
        self.check(exact=False)

    def check(self, exact: bool) -> None:
        log = self.log
        records = records_of(log, 0, max_bytes=self.choice.randrange(1, 2000))
        assert [record.offset for record in records] == list(range(log.log_end_offset))
        assert log.log_end_offset >= self.promised
        assert log.log_end_offset == len(self.model) or not exact
        del self.model[log.log_end_offset :]
        assert [record.value for record in records] == self.model
        self.sequence = len(self.model)
        entry = log.producers.entries.get(1)
        assert (entry.batches[-1].last_sequence if entry else -1) == self.sequence - 1
        assert log.epochs.entries() == ([(0, 0)] if self.model else [])


@pytest.mark.parametrize("seed", range(200))
def test_a_log_survives_work_and_crashes(seed: int) -> None:
    world = World(seed)
    actions = [world.append] * 8 + [world.begin_flush, world.finish_flush] * 2
    actions += [world.roll, world.checkpoint, world.restart, world.kill, world.lose_power]
    for _ in range(60):
        world.choice.choice(actions)()
    world.finish_flush()
    world.check(exact=True)
