"""Visits to a shop whose sessions, views and funnel are known, as records of one topic per activity."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

from support.spark_cluster import Record

GAP_MS = 1_800_000
PAGES = ("/", "/apples", "/pears", "/plums", "/about")


@dataclass
class Visits:
    """What was generated, and what must come out."""

    began_ms: int
    kinds: tuple[str, ...] = ("page-views", "carts", "purchases")
    sessions: Counter[str] = field(default_factory=Counter)  # by visitor
    views: Counter[str] = field(default_factory=Counter)  # by page
    came: Counter[int] = field(default_factory=Counter)  # by steps of the funnel
    events: list[tuple[int, str, dict[str, str]]] = field(default_factory=list)  # time, kind, fields

    def add(self, chance: random.Random, visitor: str, start_ms: int) -> int:
        """One session; answers when it ended."""
        at, far = start_ms, chance.choices((1, 2, 3), (6, 3, 1))[0]
        for _ in range(chance.randint(1, 6)):
            page = chance.choices(PAGES, (10, 5, 3, 2, 1))[0]
            self.views[page] += 1
            self._event(at, self.kinds[0], visitor, page)
            at += chance.randrange(1000, GAP_MS)
        for kind in self.kinds[1:far]:
            self._event(at, kind, visitor, "")
            at += chance.randrange(1000, 60_000)
        self.sessions[visitor] += 1
        self.came.update(range(1, far + 1))
        return at

    def _event(self, at_ms: int, kind: str, visitor: str, page: str) -> None:
        time = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        told = {"time": time, "visitor": visitor, **({"page": page} if page else {})}
        self.events.append((at_ms, kind, told))

    def records(self, topics: dict[str, str], late_ms: int, chance: random.Random) -> list[tuple[str, Record]]:
        """(topic, record) in the order in which they arrive, each up to late_ms after it happened."""
        arriving = sorted(
            (at_ms + chance.randrange(late_ms), at_ms, kind, json.dumps(told)) for at_ms, kind, told in self.events
        )
        return [(topics[kind], Record(text.encode(), timestamp_ms=arrives)) for arrives, _, kind, text in arriving]


def generate(seed: int, began_ms: int, visitors: int = 40, each: int = 3) -> Visits:
    """Visitors who come several times within a day, at least a gap apart."""
    chance = random.Random(seed)
    visits = Visits(began_ms)
    for number in range(visitors):
        at = began_ms + chance.randrange(GAP_MS)
        for _ in range(each):
            at = visits.add(chance, f"visitor-{number}", at) + GAP_MS + chance.randrange(GAP_MS)
    return visits
