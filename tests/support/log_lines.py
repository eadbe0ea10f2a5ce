"""Log lines of a small shop, as its machines would write them: five formats, made from a seed, some of them broken."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from support.spark_cluster import Record

BEGAN = datetime(2026, 11, 21, 12, tzinfo=UTC)
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
PATHS = ("/", "/cart", "/cart/7", "/pay", "/img/logo.png")
EVENTS = {  # and how often of a hundred
    "order placed": 60,
    "cache miss": 25,
    "connection reset by peer": 5,
    "timeout after 3000 ms": 4,
    "retrying": 6,
}
BROKEN = (b'{"msg": ', b"\xff\xfe\x01", b"<34>", b"")


class Line(NamedTuple):
    """A line and where it comes from; `broken` ones belong into the dead-letter topic."""

    source: str
    at: datetime
    value: bytes
    broken: bool = False

    def record(self) -> Record:
        """Arrives ten minutes after the last line was written."""
        arrived = BEGAN + timedelta(hours=4, minutes=10)
        return Record(self.value, key=self.source.encode(), timestamp_ms=int(arrived.timestamp() * 1000))


def lines(count: int, seed: int, broken_every: int = 50, hours: int = 2) -> Iterator[Line]:
    """Over some hours, in no order; every so many is broken."""
    chance = random.Random(seed)
    for number in range(count):
        at = BEGAN + timedelta(milliseconds=chance.randrange(hours * 3600 * 1000))
        source = chance.choice(tuple(WRITERS))
        if broken_every and number % broken_every == broken_every - 1:
            yield Line(source, at, BROKEN[number // broken_every % len(BROKEN)], broken=True)
        else:
            yield Line(source, at, WRITERS[source](chance, at, number).encode())


def happening(chance: random.Random, number: int) -> str:
    """What happened, with an id that no other line has."""
    what = chance.choices(
        ("order placed", "cache miss", "connection reset by peer", "timeout after 3000 ms", "retrying"),
        (60, 25, 5, 4, 6),
    )[0]
    level = "error " if what.startswith(("timeout", "connection")) and chance.random() < 0.5 else ""
    return f"{level}{what} request=req-{number:06} client=10.0.{chance.randrange(4)}.{chance.randrange(250)}"


def syslog(chance: random.Random, at: datetime, number: int) -> str:
    stamp = f"{MONTHS[at.month - 1]} {at.day:2} {at:%H:%M:%S}"
    return f"<{chance.randrange(24) * 8 + 6}>{stamp} web-{number % 3} shop[{number % 900}]: {happening(chance, number)}"


def rfc5424(chance: random.Random, at: datetime, number: int) -> str:
    stamp = at.isoformat(timespec="milliseconds")
    return f'<14>1 {stamp} pay-{number % 2} billing - ID{number % 7} [o@1 order="{number}"] {happening(chance, number)}'


def structured(chance: random.Random, at: datetime, number: int) -> str:
    row = {
        "ts": at.isoformat(),
        "level": chance.choice(("INFO", "WARN", "ERROR")),
        "service": "cart",
        "msg": happening(chance, number),
        "ms": chance.randrange(900),
    }
    return json.dumps(row)


def access(chance: random.Random, at: datetime, number: int) -> str:
    stamp = f"{at.day:02}/{MONTHS[at.month - 1]}/{at.year}:{at:%H:%M:%S} +0000"
    status, path = chance.choices((200, 404, 503), (90, 7, 3))[0], chance.choice(PATHS)
    request = f"GET {path}?r=req-{number:06} HTTP/1.1"
    return f'10.0.1.{number % 250} - - [{stamp}] "{request}" {status} {number % 9000} "-" "curl/8.1"'


def dated(chance: random.Random, at: datetime, number: int) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S},{number % 1000:03} {happening(chance, number)}"


WRITERS = {"web": syslog, "billing": rfc5424, "cart": structured, "edge": access, "batch": dated}
