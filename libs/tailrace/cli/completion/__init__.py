"""`tailrace completion SHELL` prints what makes a shell complete the commands and options of `tailrace`."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Annotated, Any, Final

import typer

VARIABLE: Final = "_TAILRACE_COMPLETE"
"""The environment variable by which the shell's function asks `tailrace` for words."""
SHELLS: Final = ("bash", "zsh", "fish")


def completion(shell: Annotated[str, typer.Argument(help="bash, zsh or fish")]) -> None:
    """Print a shell's completion function: `eval "$(tailrace completion bash)"` in its start file."""
    if shell not in SHELLS:
        raise typer.BadParameter(f"{shell}: expected {', '.join(SHELLS)}")
    typer.echo(_of_typer().get_completion_script(prog_name="tailrace", complete_var=VARIABLE, shell=shell))


def is_asked() -> bool:
    """Whether a shell asks for words."""
    return VARIABLE in os.environ


def typed() -> list[str]:
    """The words of the line that the shell completes."""
    return f"{os.environ.get('COMP_WORDS', '')} {os.environ.get('_TYPER_COMPLETE_ARGS', '')}".split()


def prepare() -> None:
    """Makes typer's answers known."""
    _of_typer().completion_init()


def _of_typer() -> Any:
    return import_module("typer.completion")  # which says of none of its functions that it exports them
