"""Mappings of very many keys, for rows of one request. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, TypeVar

_PARTS: Final = 64
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Spread(Mapping[K, V]):
    """A mapping of very many keys in some dozen parts: a dict of them all grows in one step, which takes long."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[dict[K, V]] = [{} for _ in range(_PARTS)]

    def __getitem__(self, key: K) -> V:
        return self.parts[hash(key) % _PARTS][key]

    def __contains__(self, key: object) -> bool:
        return key in self.parts[hash(key) % _PARTS]

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self.parts)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __setitem__(self, key: K, value: V) -> None:
        self.parts[hash(key) % _PARTS][key] = value

    def update(self, more: Mapping[K, V]) -> None:
        for key, value in more.items():
            self[key] = value

    def clear(self) -> None:
        """Some at a time: that very many end at once is one step as well, for which other threads wait."""
        for part in self.parts:
            part.clear()


def counted(keys: Iterable[K]) -> Spread[K, int]:
    """How often there is each."""
    counts = Spread[K, int]()
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return counts
