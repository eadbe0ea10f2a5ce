"""`tailrace COMMAND`: `up` and the roles start at once; the daily commands load typer when they are used."""

from __future__ import annotations

import gc
import os
import sys

from tailrace.cli.plan import ROLES

_ABOUT_BROKERS = (
    ["list"],
    ["log-dirs"],
    ["move-replicas"],
    ["drain"],
    ["unregister"],
)  # others run one


def main() -> None:
    """The entry point of the console script."""
    command, arguments = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    if command == "up":
        gc.disable()  # nothing that start-up imports is garbage; up.py turns it on again where the roles live
        from tailrace.cli import up

        raise SystemExit(up.main(arguments))
    if command in ROLES and not (command == "broker" and arguments[:1] in _ABOUT_BROKERS):
        from tailrace.cli.roles import find_role
        from tailrace.runtime import main as run_role

        run_role(find_role(command)(), arguments)
        return
    if command == "demo":
        from tailrace.cli.demo.command import main as run_demo

        raise SystemExit(run_demo(arguments, dict(os.environ)))
    from tailrace.cli.daily import app

    app(prog_name="tailrace")
