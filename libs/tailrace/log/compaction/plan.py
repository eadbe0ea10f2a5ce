"""A pass of the cleaner over one log: its beginning, and the swap of what it wrote."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from typing import Final

from tailrace.log.compaction.cleanable import Dirt, assess, is_due
from tailrace.log.compaction.retained import LastRecord
from tailrace.log.compaction.rewrite import Compaction, RewriteJob, RewriteLimits
from tailrace.log.compaction.swap import discard, swap_in
from tailrace.log.local_log import LocalLog

_LIMITS: Final = RewriteLimits()


def dirt_of(log: LocalLog, now_ms: int, limit: int) -> Dirt | None:
    """How much a pass over the closed segments below limit could clean; None where there is nothing to clean."""
    return assess(log.segments, log.cleaned_offset, limit, log.config, now_ms)


def begin(log: LocalLog, now_ms: int, limit: int, limits: RewriteLimits = _LIMITS) -> Compaction | None:
    """A pass over the closed segments below limit (the high watermark); None if none is due.

    Run it in a thread, step by step or in another process, then give it to finish, or to swap and end.
    """
    dirt = dirt_of(log, now_ms, limit)
    if dirt is None or not is_due(dirt, log.config):
        return None
    last_records = {
        producer_id: LastRecord(entry.batches[-1].last_offset if entry.batches else -1, entry.producer_epoch)
        for producer_id, entry in log.producers.entries.items()
    }
    job = RewriteJob(
        log.directory,
        tuple((segment.base_offset, segment.size_bytes) for segment in dirt.segments),
        dirt.first_dirty_offset,
        dirt.end_offset,
        now_ms,
        log.config.delete_retention_ms,
        log.config.segment_bytes,
        log.config.index_interval_bytes,
        last_records,
        limits,
    )
    log.compaction = compaction = Compaction(log.filesystem, dirt.segments, job)
    return compaction


def swap(log: LocalLog, compaction: Compaction) -> Iterator[None]:
    """Swaps in the copies, one a step; what retention took meanwhile stays away, after a truncation none is used.

    Then run the compaction's settle(), in a thread if you like, and give it to end.
    """
    assert compaction.outcome is not None
    log.keep_producers(compaction.job.end_offset)
    for output, group in zip(compaction.outputs, compaction.outcome.groups, strict=True):
        bases = [base_offset for base_offset, _ in group.sources]
        at = bisect_right(log.segments.bases, bases[0]) - 1
        here = log.segments[at : at + len(bases)] if at >= 0 else []
        sizes = tuple((segment.base_offset, segment.size_bytes) for segment in here)
        if log.compaction is not compaction or sizes != group.sources:
            # A later group may have dropped a tombstone that hides what stays in this one.
            log.compaction = None
            discard(output)
            continue
        now_ms, delay_ms = compaction.job.now_ms, log.config.file_delete_delay_ms
        swap_in(output, here, partial(log.segments.retire, now_ms=now_ms, delay_ms=delay_ms))
        output.end_offset = here[-1].end_offset
        log.segments.replace(at, len(bases), output)
        yield


def end(log: LocalLog, compaction: Compaction) -> None:
    """The swap is on the disk: what the pass covered is clean, unless the log was cut meanwhile."""
    if log.compaction is compaction and compaction.outcome is not None:
        log.cleaned_offset = compaction.outcome.cleaned_offset
        log.compaction = None


def finish(log: LocalLog, compaction: Compaction) -> None:
    """Swaps in what the pass wrote, at once and on the disk."""
    for _ in swap(log, compaction):
        pass
    compaction.settle()
    end(log, compaction)


def stop(log: LocalLog) -> None:
    """What a pass on its way has not swapped in yet stays out: the log is to be copied as it is."""
    log.compaction = None
