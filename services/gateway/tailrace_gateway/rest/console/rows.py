"""Rows of a part of the cluster's state, and what has changed in them since a revision. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

Row = dict[str, object]
GONE_MAX: Final = 10_000


class RowChange(NamedTuple):
    """What a reader of an earlier revision lacks. With reset it forgets all rows that it has."""

    reset: bool
    rows: list[tuple[str, Row]]
    gone: list[str]

    def __bool__(self) -> bool:
        return self.reset or bool(self.rows) or bool(self.gone)


class PartRows:
    """The newest rows by key, in the order of their changes. Of keys that are gone, GONE_MAX are known."""

    def __init__(self, born: int = 0) -> None:
        """born: the newest revision of what was watched before."""
        self._source: Mapping[str, Row] | None = None
        self._rows: dict[str, tuple[int, Row]] = {}
        self._gone: dict[str, int] = {}
        self._forgotten = (
            born + 1 if born else 0
        )  # the newest revision at which a key went away that is not known any more
        self.revision = 0

    def replace(self, rows: Mapping[str, Row], revision: int) -> bool:
        """Takes the rows as they are now. True where they are a new revision, as the first ones always are."""
        if rows is self._source:
            return False
        self._source = rows
        changed = not self.revision
        for key, row in rows.items():
            known = self._rows.get(key)
            if known is not None and known[1] == row:
                continue
            self._rows.pop(key, None)
            self._gone.pop(key, None)
            self._rows[key] = (revision, row)
            changed = True
        for key in [key for key in self._rows if key not in rows]:
            del self._rows[key]
            self._gone[key] = revision
            changed = True
        while len(self._gone) > GONE_MAX:
            oldest = next(iter(self._gone))
            self._forgotten = self._gone.pop(oldest)
        if changed:
            self.revision = revision
        return changed

    def since(self, revision: int) -> RowChange:
        """What is new to a reader of that revision; 0 for one that has no rows."""
        if revision <= 0 or revision < self._forgotten or revision > self.revision:
            return RowChange(bool(self.revision), [(key, row) for key, (_, row) in self._rows.items()], [])
        changed = []
        for key in reversed(self._rows):
            at, row = self._rows[key]
            if at <= revision:
                break
            changed.append((key, row))
        gone = []
        for key in reversed(self._gone):
            if self._gone[key] <= revision:
                break
            gone.append(key)
        return RowChange(False, changed[::-1], gone)
