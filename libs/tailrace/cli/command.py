"""`tailrace COMMAND`: `up` and the roles start at once; the daily commands load typer when they are used."""

from __future__ import annotations

import errno
import gc
import os
import sys
from pathlib import Path

from tailrace import __version__
from tailrace.cli.plan import ROLES, socket_dir
from tailrace.private_files import make_umask_private

INTERRUPTED = 130  # as a shell says it of Ctrl-C
_OBJECTS = 100_000  # what a command imports is no garbage: looking for some took a tenth of its time
ABOUT = {  # with other arguments the command runs one
    "broker": ("list", "log-dirs", "move-replicas", "drain", "scale-down", "may-stop", "unregister"),
    "quota": ("list", "set", "delete", "top"),
}
_WHAT = {"broker": "its brokers", "quota": "quotas"}


def main() -> None:
    """The entry point of the console script."""
    make_umask_private()
    command, arguments = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    if command == "--version":
        sys.stdout.write(f"tailrace {__version__}\n")
        return
    if command == "up":
        gc.disable()  # nothing that start-up imports is garbage; up.py turns it on again where the roles live
        from tailrace.cli import up

        raise SystemExit(up.main(arguments))
    about = ABOUT.get(command, ())
    if command in ROLES and not (arguments and arguments[0] in about):
        if about and arguments[:1] in (["--help"], ["-h"]):
            sys.stdout.write(
                f"`tailrace {command} {'|'.join(about)}` ask a cluster about {_WHAT[command]}, each with --help.\n"
                "With other arguments:\n\n"
            )
        from tailrace.cli.roles import find_role
        from tailrace.runtime.process import main as run_role

        run_role(find_role(command)(), arguments)
        return
    if command == "health":
        from tailrace.runtime import health

        raise SystemExit(health.main(arguments, _run_dir))
    if command == "demo":
        from tailrace.cli.demo.command import main as run_demo

        raise SystemExit(run_demo(arguments, dict(os.environ)))
    _run_daily()


def _run_dir(data_dir: str | None) -> Path:
    """Where `up`, or a role with this environment, keeps its run files."""
    if data_dir is None and (named := os.environ.get("TAILRACE_RUN_DIR")):
        return Path(named)
    found = data_dir or os.environ.get("TAILRACE_DATA_DIR")
    if not found:
        from tailrace.runtime.run_files import default_data_dir

        found = str(default_data_dir(os.environ))
    return socket_dir(Path(found).absolute(), os.environ.get("XDG_RUNTIME_DIR"))


def _run_daily() -> None:
    """Runs a daily command; without a traceback for Ctrl-C while it is loaded, or an output that takes no more."""
    gc.set_threshold(_OBJECTS)
    try:
        from tailrace.cli.daily import app

        try:
            app(prog_name="tailrace")
        finally:
            sys.stdout.flush()  # here it can be told what fails
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EPIPE):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python tries again as it ends
        if error.errno == errno.EPIPE:
            raise SystemExit(1) from None
        raise SystemExit(f"tailrace: what was to be said could not be written: {error.strerror}.") from None
