"""Shells complete commands and options, and -h is --help everywhere."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from support.typed_commands import command_names
from tailrace.cli.completion import SHELLS, VARIABLE
from tailrace.cli.daily import COMMANDS, app


def completed(line: str) -> list[str]:
    """What bash is offered for the last word of a line."""
    environ = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), VARIABLE: "complete_bash", "PATH": ""}
    code = "import sys; from tailrace.cli import main; sys.argv = ['tailrace']; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environ)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("tailrace ", list(COMMANDS)),
        ("tailrace top", ["topic"]),
        ("tailrace topic de", ["describe", "delete", "delete-records"]),
        ("tailrace consume orders --fo", ["--follow", "--format"]),
        ("tailrace status --ti", ["--timeout"]),
    ],
)
def test_commands_and_options_are_offered(line: str, words: list[str]) -> None:
    assert completed(line) == words


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_its_function(shell: str) -> None:
    done = CliRunner().invoke(app, ["completion", shell])
    assert done.exit_code == 0
    assert f"{VARIABLE}=complete_{shell}" in done.output


def test_another_shell_is_refused() -> None:
    done = CliRunner().invoke(app, ["completion", "tcsh"])
    assert done.exit_code == 2 and "expected bash, zsh, fish" in done.output


STARTED_EARLIER = {name for name, command in COMMANDS.items() if not command.module.startswith("tailrace.")}


@pytest.mark.parametrize("path", sorted(set(command_names()) - STARTED_EARLIER))
def test_h_is_help(path: str) -> None:
    short, long = (CliRunner().invoke(app, [*path.split(" "), option]) for option in ("-h", "--help"))
    assert short.exit_code == 0 and short.output == long.output
