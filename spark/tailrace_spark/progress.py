"""What a running query tells the console: a line per batch that had work, and the sums at the end."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

BEFORE_ANY = "1970-01-01T00:00:00.000Z"  # what Spark has for a watermark before the first row


def line(progress: Mapping[str, Any]) -> str:
    """One batch in a line. `progress` is Spark's StreamingQueryProgress as JSON."""
    took_ms = progress.get("durationMs", {}).get("triggerExecution", 0)
    rows = progress.get("numInputRows", 0)
    parts = [
        f"{progress.get('name') or 'query'} batch {progress['batchId']}: {rows:,} records in {took_ms / 1000:.1f} s",
        f"{rows * 1000 / max(took_ms, 1):,.0f}/s",
    ]
    if (behind := records_behind(progress)) is not None:
        parts.append(f"{behind:,} behind")
    watermark = progress.get("eventTime", {}).get("watermark", BEFORE_ANY)
    if watermark != BEFORE_ANY:
        parts.append(f"watermark {watermark}")
    if state := sum(operator.get("numRowsTotal", 0) for operator in progress.get("stateOperators", ())):
        parts.append(f"{state:,} rows of state")
    if dropped := sum(op.get("numRowsDroppedByWatermark", 0) for op in progress.get("stateOperators", ())):
        parts.append(f"{dropped:,} too late")
    parts += [f"{value:,} {name}" for name, value in sorted(observed(progress).items())]
    return ", ".join(parts)


def records_behind(progress: Mapping[str, Any]) -> int | None:
    """How many records the topics have that no batch has read, from the sources' offsets; None without Kafka."""
    total = None
    for source in progress.get("sources", ()):
        ends, latest = offsets(source.get("endOffset")), offsets(source.get("latestOffset"))
        if latest:
            total = (total or 0) + sum(max(0, offset - ends.get(key, 0)) for key, offset in latest.items())
    return total


def offsets(text: Any) -> dict[tuple[str, str], int]:
    """{"topic": {"0": 17}} as {(topic, partition): offset}; empty for other sources."""
    rows = json.loads(text) if isinstance(text, str) and text.startswith("{") else text
    if not isinstance(rows, dict):
        return {}
    return {(t, p): n for t, parts in rows.items() if isinstance(parts, dict) for p, n in parts.items()}


def observed(progress: Mapping[str, Any]) -> dict[str, int]:
    """Whole numbers that the job counts itself with DataFrame.observe, by name."""
    metrics = progress.get("observedMetrics", {}).values()
    return {name: value for row in metrics for name, value in row.items() if isinstance(value, int)}


class QueryProgress(StreamingQueryListener):
    """Says a line per batch with records; `totals` has "records" and the job's own counts."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.totals: Counter[str] = Counter()
        self._ended = 0
        self._changed = threading.Condition()

    def wait_for_ends(self, queries: int, timeout_seconds: float = 10.0) -> None:
        """Returns when so many queries' last events are in: Spark sends them behind the queries' backs."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended >= queries, timeout_seconds)

    def onQueryStarted(self, event: Any) -> None:
        """Nothing to say yet."""

    def onQueryProgress(self, event: Any) -> None:
        """A batch has ended."""
        progress = json.loads(event.progress.json)
        if progress.get("numInputRows", 0):
            self.totals["records"] += progress["numInputRows"]
            self.totals.update(observed(progress))
            self.say(line(progress))

    def onQueryIdle(self, event: Any) -> None:
        """Nothing to say."""

    def onQueryTerminated(self, event: Any) -> None:
        """The last event of a query."""
        with self._changed:
            self._ended += 1
            self._changed.notify_all()
