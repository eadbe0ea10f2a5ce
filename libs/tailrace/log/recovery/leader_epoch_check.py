"""Whether the leader epochs that a file says are those of the batches; if not they are made again from the batches.

The file has no check in Kafka's format, but every batch carries its epoch, so a look at both sides of each beginning
tells. The epoch lies outside a batch's CRC, too: where the batches do not agree among themselves, the file is believed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise, takewhile
from typing import Final

from tailrace.log.leader_epochs import LeaderEpochs
from tailrace.log.segment.search import indexes_of, position_of
from tailrace.log.segment.segment import Segment
from tailrace.log.segment.valid import headers
from tailrace.records.batch import BatchHeader

_LOOKED_AT: Final = 3  # the last batch before an epoch's beginning and two of it: one may be the damaged one


def agree(
    epochs: LeaderEpochs, segments: Sequence[Segment], log_start_offset: int, log_end_offset: int, *, clean: bool
) -> bool:
    """Whether nothing that the batches say contradicts the epochs; looks at a few batches for each of them."""
    entries = epochs.entries()
    if any(one[0] >= two[0] or one[1] >= two[1] for one, two in pairwise(entries)):
        return False
    if entries and (entries[0][0] < 0 or entries[0][1] < 0 or (clean and entries[-1][1] > log_end_offset)):
        return False
    lowest = max(log_start_offset, segments[0].base_offset)
    for number, (epoch, start) in enumerate(entries):
        limit = entries[number + 1][1] if number + 1 < len(entries) else log_end_offset
        if limit <= lowest:
            continue
        # A crash may leave a log start older than the epochs: then nothing is known of what lies before the first.
        before = entries[number - 1][0] if number else (-1 if clean else None)
        if start <= lowest or before is None:
            found = islice(_headers(segments, max(start, lowest)), _LOOKED_AT - 1)
            valid = _is_of([header for header in found if header.base_offset < limit], epoch)
        else:
            found = islice(_headers(segments, start - 1), _LOOKED_AT)
            valid = _begins(_from_before(segments, start, list(found)), before, epoch, start, limit)
        if not valid:
            return False
    last = next(_headers(segments, log_end_offset - 1), None) if log_end_offset > lowest else None
    return last is None or last.partition_leader_epoch <= epochs.latest


def _from_before(segments: Sequence[Segment], start: int, found: list[BatchHeader]) -> list[BatchHeader]:
    """These batches from start on, behind the last one before: it may lie beyond a gap that compaction left."""
    if found and found[0].base_offset < start:
        return found
    last = bisect_left(segments, start, key=lambda segment: segment.base_offset)
    for segment in reversed(segments[:last]):
        valid = (header for _, header in headers(segment, indexes_of(segment)[0].entry(start - 1)[1]))
        before = deque(takewhile(lambda header: header.base_offset < start, valid), maxlen=1)
        if before:
            return [before[0], *found]
    return found


def _begins(found: list[BatchHeader], before: int, epoch: int, start: int, limit: int) -> bool:
    """Whether the epoch can begin at start, of these batches from the one that holds the offset before on."""
    earlier = [header for header in found if header.base_offset < start]
    if any(header.next_offset > start or header.partition_leader_epoch > before for header in earlier):
        return False
    return _is_of([header for header in found if start <= header.base_offset < limit], epoch)


def _is_of(headers: list[BatchHeader], epoch: int) -> bool:
    """Whether one of them is of that epoch, or carries none (older than Kafka 0.11), or there are none.

    Where only the first is not, either it is damaged or the epoch begins behind it. To believe the file is the safe
    side: who asks where the epoch before ended hears of an earlier offset and copies a batch that it may have had.
    """
    said = [header.partition_leader_epoch for header in headers]
    return not said or any(one in (epoch, -1) for one in said)


def _headers(segments: Sequence[Segment], offset: int) -> Iterator[BatchHeader]:
    """The batches from the one that holds the offset, or the next, on."""
    first = max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)
    for segment in segments[first:]:
        position = position_of(segment, offset) if offset > segment.base_offset else 0
        for _, header in headers(segment, position):
            yield header


def from_batches(segments: Sequence[Segment], known: LeaderEpochs, read: Sequence[tuple[int, int]]) -> LeaderEpochs:
    """What the batches say, of which all headers are read; known, what was believed so far, if they contradict.

    read are the entries of the file, as they are there.
    """
    made, batches = LeaderEpochs(), dict[int, int]()
    for header in _headers(segments, segments[0].base_offset):
        epoch = header.partition_leader_epoch
        if 0 <= epoch < made.latest:
            return known
        made.assign(epoch, header.base_offset)
        batches[epoch] = batches.get(epoch, 0) + 1
    said = {start: epoch for epoch, start in read}
    known_from = min(said, default=0)  # of what lies before it the file says nothing
    believed = LeaderEpochs()
    for epoch, start in made.entries():
        if said and start >= known_from and batches[epoch] == 1 and epoch not in said.values():
            # One batch says what the file does not know. The lower epoch is the safe side: one that is too high would
            # be taken for a later leader's; too low, what a follower has beyond it is only copied again.
            believed.assign(min(epoch, said.get(start, -1)), start)
        else:
            believed.assign(epoch, start)
    return believed
