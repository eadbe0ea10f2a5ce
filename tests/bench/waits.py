"""How long everybody else waits while one client sends its largest requests, API by API.

`PYTHONPATH=tests python -m bench.waits`: a probe of each role every 100 ms (produce, fetch, metadata, a group's
heartbeat, the reassignments under way, REST) beside each attack of tests/support/attacks.py.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.report import say
from bench.section import Section
from support.abuse import ROLES, Client, Seen, Watch, create_topics, table
from support.attacks import ATTACKS, BROKERS, CHANGES, LARGEST, Attack, prepare
from tailrace.testing import Cluster

SECTION = Section("waits", "bench.waits", kafka=False)
AIM_MS = 25.0
SHOWN_MS = 5.0  # a request is a line of the page from there on
_FIRST_SCALE = 0.002  # the first request of an API in its version has its codec generated, once in a process
_ROLES = ("gateway", "broker-0", *(role for role in ROLES if role != "gateway"))


def _environ(holds: str) -> dict[str, str]:
    path = [str(Path(__file__).with_name("holds")), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "BENCH_HOLDS": holds, "PYTHONPATH": os.pathsep.join(path)}


def measure(attacks: Sequence[Attack], scale: float) -> Iterator[Seen]:
    """Each of them in turn, on one cluster."""
    with TemporaryDirectory(prefix="holds-") as holds, Cluster(environ=_environ(holds)) as cluster:
        with Client(cluster) as client:
            client.answer(create_topics(["probed"]))
        prepare(cluster, scale)
        watch = Watch(cluster, "probed", holds=Path(holds))
        with watch.over("nothing"):
            pass
        for attack in attacks:
            if attack not in BROKERS:
                attack.run(cluster, _FIRST_SCALE)
            made = attack.make(scale)
            with watch.over(attack.name) as seen:
                attack.send(cluster, made)
            yield seen


def lines(found: Sequence[Seen]) -> list[str]:
    """How many requests keep the aim, and a row for each that is not far below it."""
    kept = sum(_longest(seen) <= AIM_MS for seen in found)
    rows = [seen for seen in found if _longest(seen) > SHOWN_MS]
    return [
        f"With {kept} of {len(found)} requests no role needs more than {AIM_MS:.0f} ms. "
        f"The table has those with which a role needs more than {SHOWN_MS:.0f} ms.",
        "",
        "| request | " + " | ".join(role.partition("-")[0] for role in _ROLES) + " | a probe's longest wait |",
        "|---|" + "--:|" * (len(_ROLES) + 1),
        *("| " + " | ".join([seen.attack, *_figures(seen)]) + " |" for seen in rows),
    ]


def _longest(seen: Seen) -> float:
    return max(seen.holds_ms.values())


def _figures(seen: Seen) -> list[str]:
    return [
        *(f"{seen.holds_ms[role]:.1f}" if role in seen.holds_ms else "-" for role in _ROLES),
        f"{max(seen.waits_ms.values()):.0f}",
    ]


def main(arguments: list[str]) -> None:
    """Prints as it goes. The page is written by a run of all attacks alone."""
    parser = SECTION.parser("Measures how long others wait while one client sends its largest requests.")
    parser.add_argument("--scale", type=float, default=1.0, help="1: as large as a request may be")
    parser.add_argument(
        "--attacks", default="", help="only those whose name contains one of these words, with commas between"
    )
    options = parser.parse_args(arguments)
    attacks = [
        attack
        for attack in (*ATTACKS, *LARGEST, *CHANGES, *BROKERS)
        if any(word in attack.name for word in options.attacks.split(","))
    ]
    found = []
    for seen in measure(attacks, options.scale):
        found.append(seen)
        say("\n".join([*table([seen]), *seen.errors, *seen.complaints]))
    if options.attacks or options.scale < 1:
        say("\n".join(lines(found)))
    else:
        SECTION.write(lines(found), arguments, options.output)


if __name__ == "__main__":
    main(sys.argv[1:])
