"""What a line that is typed means: a key and a value, nulls, headers, or a JSON object."""

from __future__ import annotations

from typing import NamedTuple

from tailrace.reading.json_lines import NewRecord, read
from tailrace.records.record import Headers


class LineForm(NamedTuple):
    """The options of `tailrace produce` for lines; an empty separator: a line is a value."""

    separator: bytes = b""
    key: bytes | None = None
    headers: Headers = ()
    nulls: bool = False
    as_json: bool = False

    def of_line(self, line: bytes) -> NewRecord:
        """The record of a line. Raises ValueError where it is to be JSON and is none."""
        line = line.removesuffix(b"\n")
        if self.as_json:
            return read(line)
        if self.separator and self.separator in line:
            key, _, value = line.partition(self.separator)
            return self.record(value, key)
        return self.record(line)

    def record(self, value: bytes, key: bytes | None = None) -> NewRecord:
        """A record of a value, and of its own key or the common one."""
        chosen = self.key if key is None else key
        if self.nulls:
            return NewRecord(chosen or None, value or None, self.headers)
        return NewRecord(chosen, value, self.headers)
