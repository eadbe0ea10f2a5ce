"""What a job says of its batches."""

from __future__ import annotations

import json
from typing import Any

from tailrace_spark.batches import NEVER, shown, watermark_us
from tailrace_spark.progress import line, offsets, records_behind

PROGRESS: dict[str, Any] = {
    "name": "logs",
    "batchId": 7,
    "numInputRows": 5000,
    "durationMs": {"triggerExecution": 2500},
    "eventTime": {"watermark": "2026-11-21T15:00:00.000Z"},
    "stateOperators": [{"numRowsTotal": 1200, "numRowsDroppedByWatermark": 3}],
    "sources": [{"endOffset": {"a": {"0": 10}}, "latestOffset": json.dumps({"a": {"0": 12, "1": 40}})}],
    "observedMetrics": {"lines": {"broken": 4, "mean": 0.5}},
}


def test_a_batch_is_told_in_a_line() -> None:
    assert line(PROGRESS) == (
        "logs batch 7: 5,000 records in 2.5 s, 2,000/s, 42 behind, watermark 2026-11-21T15:00:00.000Z, "
        "1,200 rows of state, 3 too late, 4 broken"
    )
    before_any = {"batchId": 0, "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}}
    assert line(before_any) == line({"batchId": 0}) == "query batch 0: 0 records in 0.0 s, 0/s"


def test_how_far_behind_is_known_of_topics_only() -> None:
    assert records_behind({"sources": [{"endOffset": 5, "latestOffset": 9}]}) is None
    assert offsets("rate") == {}
    caught_up = {"a": {"0": 10}}
    assert records_behind({"sources": [{"endOffset": caught_up, "latestOffset": caught_up}]}) == 0


def test_a_watermark_never_goes_back_and_is_told_whatever_it_is() -> None:
    assert watermark_us(None, 60, NEVER) == NEVER
    assert watermark_us(100_000_000, 60, NEVER) == 40_000_000
    assert watermark_us(50_000_000, 60, 40_000_000) == 40_000_000
    assert shown(NEVER) == "no watermark yet"
    assert shown(40_000_000) == "watermark 1970-01-01T00:00:40Z"
    assert shown(1 << 60) == "watermark 1152921504606846976 us"
