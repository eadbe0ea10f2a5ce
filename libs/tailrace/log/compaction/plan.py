"""How a log begins a pass of its cleaner and takes over what the pass wrote."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import partial

from tailrace.log.compaction.cleanable import assess, is_due
from tailrace.log.compaction.retained import LastRecord
from tailrace.log.compaction.rewrite import Compaction, RewriteJob, RewriteLimits
from tailrace.log.compaction.swap import discard, swap_in
from tailrace.log.local_log import LocalLog


def begin(log: LocalLog, now_ms: int, limit: int, limits: RewriteLimits) -> Compaction | None:
    """As Log.begin_compaction."""
    dirt = assess(log.segments, log.cleaned_offset, limit, log.config, now_ms)
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
    """As Log.swap_compaction."""
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
