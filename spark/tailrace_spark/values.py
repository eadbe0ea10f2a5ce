"""What the values of options may be. Each function raises ValueError with what it would have liked."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

_INTERVAL = re.compile(r"(\d+ (milli|)(second|minute|hour|day)s?( |$))+")
_MASTER = re.compile(r"local(\[(\d+|\*)(,\d+)?\])?|spark://[^/\s]+:\d+(,[^/\s]+:\d+)*|yarn|k8s://\S+")


def whole(least: int) -> Callable[[str], int]:
    """A whole number, not below the least."""

    def convert(text: str) -> int:
        if not re.fullmatch(r"-?\d+", text) or int(text) < least:
            raise ValueError(f"{text!r} is not a whole number from {least} on")
        return int(text)

    return convert


def trigger(text: str) -> str:
    """`now`, or a time as Spark understands it."""
    if text != "now" and not _INTERVAL.fullmatch(text):
        raise ValueError(f"{text!r} is neither 'now' nor a time such as '10 seconds'")
    return text


def true_or_false(text: str) -> str:
    """For the connector's own options."""
    if text not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text


def moment(text: str) -> str:
    """A date, with a time or without."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time; for example 2026-11-20 or '2026-11-20 08:00'") from None
    return text


def master(text: str) -> str:
    """Where Spark runs."""
    if not _MASTER.fullmatch(text):
        raise ValueError(f"{text!r} is no master of Spark; for example local[2], spark://HOST:7077, yarn or k8s://URL")
    return text
