"""Indexes as they are read from their files: up to the first entry that cannot be true, wherever that lies."""

from random import Random
from struct import Struct

import pytest

from tailrace.log.filesystem.memory import MemoryFilesystem
from tailrace.log.filesystem.port import read_file, write_file_atomically
from tailrace.log.segment.index import OffsetIndex, TimeIndex

OFFSET_ENTRY, TIME_ENTRY = Struct(">ii"), Struct(">qi")
BASE = 10**12
FIRST_MS = 1_700_000_000_000
EVERYTHING = 2**31
COUNTS = (1, 2, 3, 1023, 1024, 1025, 1026, 2049, 5000)  # around the pieces in which they are compared


def written(entry: Struct, entries: list[tuple[int, int]]) -> MemoryFilesystem:
    """A disk with an index of these entries, /logs/index."""
    filesystem = MemoryFilesystem()
    filesystem.make_directory("/logs")
    write_file_atomically(filesystem, "/logs", "index", b"".join(entry.pack(*numbers) for numbers in entries))
    return filesystem


def loaded(entry: Struct, entries: list[tuple[int, int]]) -> tuple[bool, list[tuple[int, int]]]:
    """Whether the index was intact, and the entries that it believes, as it would write them."""
    filesystem = written(entry, entries)
    index: OffsetIndex | TimeIndex
    if entry is OFFSET_ENTRY:
        index = OffsetIndex(BASE)
        intact = index.load(filesystem, "/logs/index", EVERYTHING)
    else:
        index = TimeIndex(BASE)
        intact = index.load(filesystem, "/logs/index")
    index.save(filesystem, "/logs/index")
    return intact, list(entry.iter_unpack(read_file(filesystem, "/logs/index")))


def rising(entries: list[tuple[int, int]]) -> int:
    """How many of them can be true, one by one."""
    before = (-1, -1)
    for at, numbers in enumerate(entries):
        if numbers[0] <= before[0] or numbers[1] <= before[1]:
            return at
        before = numbers
    return len(entries)


def valid(entry: Struct, count: int) -> list[tuple[int, int]]:
    if entry is OFFSET_ENTRY:
        return [(7 * at, 4110 * at) for at in range(count)]
    return [(FIRST_MS + 3 * at, 7 * at) for at in range(count)]


@pytest.mark.parametrize("count", [0, *COUNTS])
@pytest.mark.parametrize("entry", [OFFSET_ENTRY, TIME_ENTRY], ids=["offset", "time"])
def test_an_index_is_read_as_it_was_written(entry: Struct, count: int) -> None:
    assert loaded(entry, valid(entry, count)) == (True, valid(entry, count))


def test_the_largest_numbers_and_the_smallest_steps_are_believed() -> None:
    most = 2**31 - 1
    assert loaded(OFFSET_ENTRY, [(0, 0), (1, 1), (most, most - 1)])[0]
    assert loaded(TIME_ENTRY, [(0, 0), (1, 1), (2**63 - 1, most)])[0]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("entry", [OFFSET_ENTRY, TIME_ENTRY], ids=["offset", "time"])
def test_an_index_is_believed_up_to_its_first_entry_that_does_not_rise(entry: Struct, count: int) -> None:
    random = Random(count)
    bits = 8 * entry.size
    for _ in range(60):
        entries = valid(entry, count)
        at = random.choice([0, count - 1, random.randrange(count)])
        kind = random.randrange(4)
        if kind == 0:
            flipped = int.from_bytes(entry.pack(*entries[at])) ^ 1 << random.randrange(bits)
            entries[at] = entry.unpack(flipped.to_bytes(entry.size))
        elif kind == 1:  # one number as in the entry before
            one, other = entries[at], entries[max(0, at - 1)]
            entries[at] = random.choice([(other[0], one[1]), (one[0], other[1])])
        elif kind == 2:
            entries[at] = random.choice([(-1, entries[at][1]), (entries[at][0], -1)])
        else:
            entries[at] = random.choice([(entries[at][0], 2**31 - 1), (2**31 - 1, entries[at][1])])
        believed = rising(entries)
        intact, found = loaded(entry, entries)
        assert found == entries[:believed], (at, kind)
        assert intact == (believed == count)


def test_what_lies_behind_the_segments_end_is_not_believed() -> None:
    filesystem = written(OFFSET_ENTRY, valid(OFFSET_ENTRY, 5000))
    index = OffsetIndex(BASE)
    assert not index.load(filesystem, "/logs/index", 4110 * 3000)
    assert len(index) == 3000 and index.last() == (BASE + 7 * 2999, 4110 * 2999)


def test_a_time_index_finds_and_forgets_by_absolute_offsets() -> None:
    filesystem = written(TIME_ENTRY, valid(TIME_ENTRY, 2000))
    index = TimeIndex(BASE)
    assert index.load(filesystem, "/logs/index")
    assert index.entry(FIRST_MS + 3 * 10 + 2) == (FIRST_MS + 3 * 10, BASE + 70)
    assert index.entry(FIRST_MS - 1) == (-1, BASE)
    index.maybe_append(FIRST_MS + 10**6, BASE + 7 * 2000)
    assert index.last() == (FIRST_MS + 10**6, BASE + 7 * 2000)
    index.truncate(BASE + 70)
    assert len(index) == 10 and index.last() == (FIRST_MS + 27, BASE + 63)
