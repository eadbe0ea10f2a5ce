"""The form of what a command prints: `--output table|wide|json` of every command.

What a command shows is one JSON document in the REST API's names. What it does is a JSON object on a line, with the
sentence that people see, as of `tailrace up --json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, cast

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from tailrace.cli.daily.connection import say, table

Form = Literal["table", "wide", "json"]
Row = Mapping[str, object]
Cell = Callable[..., object]
_FORMS: Final = ("table", "wide", "json")


class _Given:
    """What stands on the command line that runs now."""

    form: Form = "table"


def form() -> Form:
    """The form that was asked for."""
    return _Given.form


def is_json() -> bool:
    """Whether a program reads what is printed."""
    return _Given.form == "json"


def show(
    rows: Sequence[Row],
    columns: Mapping[str, str],
    *,
    cells: Mapping[str, Cell] | None = None,
    data: object = None,
    text: Callable[[], None] | None = None,
    most_chars: int | None = 255,
) -> None:
    """Prints rows, whose fields are in the REST API's names.

    table: `text`, or these columns by their headings. wide: these columns, then every other field. json: `data`, or the
    rows as they are. `cells` make a field fit for people.
    """
    if is_json():
        say(json.dumps(rows if data is None else data))
    elif text is not None and form() == "table":
        text()
    else:
        heads = dict(columns)
        if form() == "wide":
            heads |= {key: key.replace("_", " ") for row in rows for key in row if key not in heads}
        made = cells or {}
        table(
            tuple(heads.values()),
            [tuple(cell(made[key](row[key]) if key in made else row.get(key)) for key in heads) for row in rows],
            most_chars,
        )


def row(fields: Row, line: str) -> None:
    """Prints one of many rows when it is there: the line, or a JSON object on a line."""
    say(json.dumps(fields) if is_json() else line)


def done(sentence: str, /, *, err: bool = False, **fields: object) -> None:
    """Says what was done. err: people see it beside the output."""
    if is_json():
        say(json.dumps({**fields, "sentence": sentence}))
    else:
        say(sentence, err=err)


def cell(value: object) -> object:
    """A field for people: lists with commas, and - for none."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(str(cell(one)) for one in value) or "-"
    return json.dumps(value) if isinstance(value, dict) else value


def add_output(command: TyperCommand | TyperGroup) -> None:
    """Gives each command --output, and --json, which is `--output json`, where --json is no form of records."""
    for inner in getattr(command, "commands", {}).values():
        add_output(inner)
    if isinstance(command, TyperGroup):
        return
    has_json = any("--json" in parameter.opts for parameter in command.params)
    command.params.append(
        TyperOption(
            param_decls=["--output"],
            type=str,
            metavar="|".join(_FORMS),
            default="table",
            expose_value=False,
            callback=_take_output,
            is_eager=True,  # before --json, and of each command: what a command before it left does not count
            help="wide has every field, json is for programs",
        )
    )
    if not has_json:
        command.params.append(
            TyperOption(
                param_decls=["--json"],
                is_flag=True,
                default=False,
                expose_value=False,
                callback=_take_json,
                help="the same as --output json",
            )
        )


def _take_output(context: typer.Context, _parameter: object, value: str) -> None:
    if value not in _FORMS:
        raise typer.BadParameter(f"{value}: expected {', '.join(_FORMS)}")
    _take(context, cast("Form", value))


def _take_json(context: typer.Context, _parameter: object, value: bool) -> None:
    if value:
        _take(context, "json")


def _take(context: typer.Context, wanted: Form) -> None:
    _Given.form = wanted
    context.call_on_close(_forget)


def _forget() -> None:
    _Given.form = "table"
