"""What `promtool check metrics` has against a page of metrics: its rules (promlint), for machines without it."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ABBREVIATED = {"s", "ms", "us", "ns", "sec", "secs", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d"}
_NOT_BASE_UNITS = {"milliseconds", "microseconds", "nanoseconds", "minutes", "hours", "days", "kilobytes", "megabytes"}
_TYPES = {"counter", "gauge", "histogram", "summary"}
_HELP = re.compile(r"^# HELP (\S+) ?(.*)$", re.MULTILINE)
_TYPE = re.compile(r"^# TYPE (\S+) (\w+)$", re.MULTILINE)


def problems(page: str) -> Iterator[str]:
    """A sentence for each metric that breaks a rule."""
    helps = dict(_HELP.findall(page))
    for name, kind in _TYPE.findall(page):
        words = name.split("_")
        if not helps.get(name):
            yield f"{name} has no help text"
        if (kind == "counter") != name.endswith("_total"):
            yield f"{name} is a {kind}: counters, and no others, end in _total"
        if kind in {"gauge", "counter", "unknown"} and words[-1] in {"count", "sum", "bucket"}:
            yield f"{name} is no histogram and no summary, and ends in _{words[-1]}"
        if found := _ABBREVIATED & set(words):
            yield f"{name} has an abbreviated unit: {found}"
        if found := _NOT_BASE_UNITS & set(words):
            yield f"{name} has a unit that is no base unit: {found}"
        if found := _TYPES & set(words):
            yield f"{name} names a type: {found}"
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            yield f"{name} has other characters than a-z, 0-9 and _"
