"""What the commands do not import, so that they start soon: `time tailrace --help` says how soon."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.waiting import HUNG_S

# Each takes 10 ms or more, or brings something that does.
HEAVY = (
    "aiokafka",
    "fastapi",
    "kafka",
    "prometheus_client",
    "pydantic",
    "rich",
    "sqlalchemy",
    "starlette",
    "structlog",
    "tailrace.config",
    "tailrace.log",
    "tailrace.runtime.process",
    "tailrace.wire",
    "uvloop",
)
ALSO_FOR_HELP = ("argparse", "asyncio", "hashlib", "urllib.request")
# Of what a command that asks the cluster can do without.
LATE = (
    "fastapi",
    "pydantic",
    "rich",
    "sqlalchemy",
    "structlog",
    "tailrace.config",
    "tailrace.log.log",
    "tailrace.net.large",
    "tailrace.wire.refuse",
)
CLIENTS = ("kafka.admin", "kafka.consumer", "kafka.net", "kafka.producer")


def imported(*arguments: str) -> set[str]:
    """The modules that are there when the command ends."""
    code = (
        "import sys\n"
        "from tailrace.cli import main\n"
        f"sys.argv = ['tailrace', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('\\n' + ' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HUNG_S, check=True)
    return set(done.stdout.splitlines()[-1].split(" "))


@pytest.mark.parametrize("arguments", [("--help",), ()])
def test_the_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert not imported(*arguments) & {*HEAVY, *ALSO_FOR_HELP}


@pytest.mark.parametrize("command", [("topic", "list"), ("group", "describe", "g"), ("broker", "list")])
def test_a_command_that_asks_the_cluster_imports_no_client_of_kafka_python(command: tuple[str, ...]) -> None:
    found = imported(*command, "--bootstrap", "127.0.0.1:1")
    assert "kafka.protocol" in found
    assert not found & {*CLIENTS, *LATE}


def test_a_health_check_is_as_cheap_as_the_help() -> None:
    assert not imported("health", "--data", "/nowhere") & {*HEAVY, "argparse", "asyncio", "urllib.request", "typer"}
