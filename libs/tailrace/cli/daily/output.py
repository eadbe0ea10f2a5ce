"""The form of what a command prints: `--output table|json` of every command that has `--json`."""

from __future__ import annotations

from functools import partial

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption


def add_output(command: TyperCommand | TyperGroup) -> None:
    """Gives each command that has --json the option --output, of which `json` is the same."""
    for inner in getattr(command, "commands", {}).values():
        add_output(inner)
    flag = next((parameter.name for parameter in command.params if "--json" in parameter.opts), None)
    if flag is not None:
        command.params.append(
            TyperOption(
                param_decls=["--output"],
                type=str,
                metavar="table|json",
                default="table",
                expose_value=False,
                is_eager=True,  # before --json takes its default, which this changes
                callback=partial(_take_output, flag),
                help="json is for programs",
            )
        )


def _take_output(flag: str, context: typer.Context, _parameter: object, value: str) -> None:
    if value not in {"table", "json"}:
        raise typer.BadParameter(f"{value}: expected table or json")
    if value == "json":
        context.default_map = {**(context.default_map or {}), flag: True}
