"""The line formats: how each is told by its beginning, and one regular expression that takes it apart."""

from __future__ import annotations

from dataclasses import dataclass

CUT = "\x1f"  # between the parts; the lines themselves are freed of it first
PARTS = ("time", "host", "service", "severity", "message")  # every template begins with these
MONTH_DAY = r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"
ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"

# Possessive (*+): Java's matcher recurses for what it may give back, and a long line would overflow its stack.
INSIDE = r'[^"\\]*+(?:\\.[^"\\]*+)*+'
QUOTED = f'"({INSIDE})"'
ELEMENT = rf'\[[^\]\\"]*+(?:(?:\\.|"{INSIDE}")[^\]\\"]*+)*+\]'


@dataclass(frozen=True)
class Format:
    """`template` lists the groups of `pattern` in the order of PARTS, then those of `more`."""

    name: str
    begins: str  # a line that begins so is of this format ...
    pattern: str  # ... and malformed if this does not match, where `strict`
    template: tuple[str, ...]
    more: tuple[str, ...] = ()
    strict: bool = True


FORMATS = (
    # <34>1 2003-10-11T22:14:15.003Z host app 1234 ID47 [sd@1 k="v"] message
    Format(
        "rfc5424",
        r"^<\d{1,3}>[1-9]\d? ",
        rf"(?s)^<(\d{{1,3}})>\d+ (\S+) (\S+) (\S+) (\S+) (\S+) (-|(?:{ELEMENT})++)(?: ?\uFEFF?(.*))?$",
        ("$2", "$3", "$4", "$1", "$8"),
        ("$5", "$6", "$7"),
    ),
    # <34>Oct 11 22:14:15 host app[1234]: message
    Format(
        "syslog",
        r"^<\d{1,3}>",
        rf"(?s)^<(\d{{1,3}})>({MONTH_DAY}) (\S+) ([^\s:\[]+)(?:\[([^\]]*)\])?: ?(.*)$",
        ("$2", "$3", "$4", "$1", "$6"),
        ("$5",),
    ),
    # the same in a file, where the number is left out; newer ones have the time in full
    Format(
        "syslog_file",
        rf"^(?:{MONTH_DAY}|{ISO}) [\w.:-]+ [^\s:\[]+(?:\[\d+\])?: ",
        rf"(?s)^({MONTH_DAY}|{ISO}) ([\w.:-]+) ([^\s:\[]+)(?:\[([^\]]*)\])?: ?(.*)$",
        ("$1", "$2", "$3", "", "$5"),
        ("$4",),
    ),
    # 10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326 "referer" "agent" (common and combined)
    Format(
        "access",
        r"^\S+ \S+ \S+ \[\d\d/[A-Z][a-z]{2}/\d{4}:",
        rf"(?s)^(\S+) \S+ (\S+) \[([^\]]+)\] {QUOTED} (\d{{3}}) (\d+|-)(?: {QUOTED} {QUOTED})?.*$",
        ("$3", "", "", "", "$4"),
        ("$1", "$2", "$5", "$6", "$7", "$8"),
    ),
    # 2026-11-21 15:20:29 anything
    Format("dated", rf"^\[?{ISO}", rf"(?s)^\[?({ISO})\]?:? ?(.*)$", ("$1", "", "", "", "$2"), strict=False),
)
