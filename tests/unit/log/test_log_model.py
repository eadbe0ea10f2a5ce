"""Any history of a log against a list: append, read, look up, truncate, delete, roll, kill, tear."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from support.logs import DIRECTORY, NOW, open_log, records_of, with_settings
from tailrace.log import lookup
from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.filesystem.port import join
from tailrace.log.retention import delete_retention
from tailrace.log.segment.segment import file_name
from tailrace.records.compression import Codec
from tailrace.records.record import Record, build

SETTINGS = with_settings(segment_bytes=500, index_interval_bytes=100)
RECORDS = st.lists(st.tuples(st.integers(0, 50), st.binary(max_size=40)), min_size=1, max_size=4)
BATCH = st.tuples(RECORDS, st.sampled_from(list(Codec)))


class LogAgainstAList(RuleBasedStateMachine):
    """batches holds what must be in the log: the records of each batch, each a (timestamp, value)."""

    def __init__(self) -> None:
        super().__init__()
        self.filesystem = MemoryFilesystem()
        self.log = open_log(self.filesystem, SETTINGS)
        self.batches: list[list[tuple[int, bytes]]] = []
        self.epoch = 0

    @rule(batches=st.lists(BATCH, min_size=1, max_size=4))
    def append(self, batches: list[tuple[list[tuple[int, bytes]], Codec]]) -> None:
        built = [
            build([Record(timestamp=timestamp, value=value) for timestamp, value in pairs], compression=codec)
            for pairs, codec in batches
        ]
        for answer, (pairs, _) in zip(self.log.append(built, self.epoch, NOW), batches, strict=True):
            assert answer.base_offset == sum(map(len, self.batches))
            self.batches.append(pairs)

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        offset = int(share * self.log.log_end_offset)
        self.log.truncate_to(offset)
        self.lose_down_to(offset)
        self.epoch += 1

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        start = self.log.log_start_offset
        self.log.advance_log_start_offset(start + int(share * (self.log.log_end_offset - start)))
        delete_retention(self.log, 0, self.log.log_end_offset)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def kill(self) -> None:
        self.log = open_log(self.filesystem, SETTINGS, log_start_offset=self.log.log_start_offset)

    @rule()
    def restart(self) -> None:
        self.log.close()
        start, point = self.log.log_start_offset, self.log.recovery_point
        self.log = open_log(self.filesystem, SETTINGS, log_start_offset=start, recovery_point=point, clean=True)

    @rule(count=st.integers(1, 200))
    def tear(self, count: int) -> None:
        last = self.filesystem.content(join(DIRECTORY, file_name(self.log.segments.bases[-1], ".log")))
        del last[max(0, len(last) - count) :]
        self.log = open_log(self.filesystem, SETTINGS, log_start_offset=self.log.log_start_offset)
        self.lose_down_to(self.log.log_end_offset)

    def lose_down_to(self, offset: int) -> None:
        while sum(map(len, self.batches)) > offset:
            self.batches.pop()
        # Cut below its start the log begins anew at the offset asked for; what is missing was deleted anyway.
        missing = self.log.log_end_offset - sum(map(len, self.batches))
        assert not missing or self.log.log_start_offset == self.log.log_end_offset
        self.batches.append([(0, b"")] * missing)

    @invariant()
    def the_log_holds_the_list(self) -> None:
        records = [pair for batch in self.batches for pair in batch]
        start = self.log.log_start_offset
        assert self.log.log_end_offset == len(records)
        expected = [(offset, *records[offset]) for offset in range(start, len(records))]
        found = records_of(self.log, max_bytes=300)
        assert [(record.offset, record.timestamp, record.value) for record in found] == expected
        newest = max((timestamp for _, timestamp, _ in expected), default=None)
        largest = lookup.find(self.log, None)
        assert (largest.timestamp if largest else None) == newest
        first_late = next((offset for offset, timestamp, _ in expected if timestamp >= 25), None)
        late = lookup.find(self.log, 25)
        assert (late.offset if late else None) == first_late


LogAgainstAList.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestLogAgainstAList = LogAgainstAList.TestCase
