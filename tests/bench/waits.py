"""How long everybody else waits while one client sends its largest requests, API by API.

`PYTHONPATH=tests python -m bench.waits`: a probe of each role every 100 ms (produce, fetch, metadata, a group's
heartbeat, the reassignments under way, REST) beside each attack of tests/support/attacks.py. Reports; never fails.
"""

import os
from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory

from support.abuse import Client, Watch, create_topics, table
from support.attacks import ATTACKS, LARGEST, prepare
from tailrace.testing import Cluster

_FIRST_SCALE = 0.002  # the first request of an API in its version has its codec generated, once in a process


def _environ(holds: str) -> dict[str, str]:
    path = [str(Path(__file__).with_name("holds")), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "BENCH_HOLDS": holds, "PYTHONPATH": os.pathsep.join(path)}


def main(arguments: list[str] | None = None) -> None:
    """Prints as it goes: the longest wait of each probe, and the memory that each role had at its most."""
    parser = ArgumentParser(prog="python -m bench.waits", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="1: as large as a request may be")
    parser.add_argument(
        "--attacks", default="", help="only those whose name contains one of these words, with commas between"
    )
    options = parser.parse_args(arguments)
    words = options.attacks.split(",")
    with TemporaryDirectory(prefix="holds-") as holds, Cluster(environ=_environ(holds)) as cluster:
        with Client(cluster) as client:
            client.answer(create_topics(["probed"]))
        prepare(cluster, options.scale)
        watch = Watch(cluster, "probed", holds=Path(holds))
        with watch.over("nothing"):
            pass
        for attack in (*ATTACKS, *LARGEST):
            if not any(word in attack.name for word in words):
                continue
            attack.run(cluster, _FIRST_SCALE)
            made = attack.make(options.scale)
            with watch.over(attack.name) as seen:
                attack.send(cluster, made)
            print("\n".join([*table([seen]), *seen.errors, *seen.complaints]), flush=True)


if __name__ == "__main__":
    main()
