"""The settings as attributes; values.pyi, written by `python -m tailrace.config.generate`, gives their types."""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.config.validators import Value


class Values:
    """One attribute per key of the table: `.` becomes `_`."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.__dict__.update(values)
