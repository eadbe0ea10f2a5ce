"""A warning that strangers can cause is written some times, then counted."""

from __future__ import annotations

from itertools import count

import structlog

from tailrace.clock import ManualClock
from tailrace.net.limits.seldom import EVERY_MS, LINES, SeldomWarning


def test_what_costs_is_made_for_written_lines_alone() -> None:
    clock, log = ManualClock(), structlog.testing.CapturingLogger()
    warning = SeldomWarning(structlog.wrap_logger(log, processors=[]), clock.monotonic_ms, "refused")
    numbers = count()
    for _ in range(LINES + 5):
        warning.say(why=lambda: next(numbers))
    assert [call.kwargs["why"] for call in log.calls] == list(range(LINES))
    assert next(numbers) == LINES


def test_what_was_left_out_is_told_by_the_next_line() -> None:
    clock, log = ManualClock(), structlog.testing.CapturingLogger()
    warning = SeldomWarning(structlog.wrap_logger(log, processors=[]), clock.monotonic_ms, "refused")
    for number in range(LINES + 5):
        warning.say(client=number)
    assert [call.kwargs for call in log.calls] == [{"event": "refused", "client": number} for number in range(LINES)]
    clock.advance(EVERY_MS)
    warning.say(client="late")
    warning.say(client="later")
    assert [call.kwargs for call in log.calls[LINES:]] == [
        {"event": "refused", "client": "late", "more_since_the_last_line": 5},
        {"event": "refused", "client": "later"},
    ]
