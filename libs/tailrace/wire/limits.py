"""Ceilings: the most rows that each list of a request may have (limits.tsv).

A list's rows are counted over the whole request: `topics.partitions` are the partitions of all topics together. A list
that the table does not name has the default ceiling. A request above a ceiling is refused as `above` says: with that
error code in its answer, or by closing the connection. One with a list above HIGHEST always closes the connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from tailrace.wire.apis import APIS, INTERNAL_APIS, ApiKey

DEFAULT: Final = 10_000
HIGHEST: Final = 20_000
CLOSED: Final = "closed"
CODES: Final[Mapping[str, int]] = {"INVALID_REQUEST": 42, "POLICY_VIOLATION": 44}


PAGE: Final = 1_000
# A compact string could be longer. Apache Kafka closes the connection over one, as no record could hold it.
MOST_STRING_BYTES: Final = 32_767
_Row = TypeVar("_Row")


class Ceiling(NamedTuple):
    """The most rows of one list, and what becomes of a request that has more."""

    most: int
    above: str

    @property
    def door(self) -> int:
        """So many rows are decoded, to be refused with an error code where there are more than `most`."""
        return HIGHEST if self.above in CODES else self.most


def _rows() -> Iterator[tuple[str, str, Ceiling]]:
    folder = __file__.rpartition("/")[0]
    with open(f"{folder}/limits.tsv", encoding="utf-8") as table:
        next(table)
        for line in table:
            api, path, most, above = line.rstrip("\n").split("\t")
            yield api, path, Ceiling(int(most), above)


_KEYS: Final[Mapping[str, int]] = {api.name: key for key, api in INTERNAL_APIS.items()}
EXCEPTIONS: Final[Mapping[tuple[int, str], Ceiling]] = {(_KEYS[api], path): found for api, path, found in _rows()}
_OF_CLIENTS: Final = Ceiling(DEFAULT, "INVALID_REQUEST")
_BETWEEN_ROLES: Final = Ceiling(DEFAULT, CLOSED)
# Their answers are as hot as their requests: no row is made to refuse one.
_CLOSING: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})


def ceiling(key: int, path: str) -> Ceiling:
    """That of one list of an API's request; `path` names it with the lists around it, as in `topics.partitions`."""
    default = _OF_CLIENTS if key in APIS and key not in _CLOSING else _BETWEEN_ROLES
    return EXCEPTIONS.get((key, path), default)


def pages(rows: Sequence[_Row]) -> list[Sequence[_Row]]:
    """The rows in parts that a request of our own has: others are not kept waiting by one."""
    return [rows[at : at + PAGE] for at in range(0, len(rows), PAGE)]
