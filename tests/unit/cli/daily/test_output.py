"""`--output table|wide|json` of every command; `--json` is `--output json`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from support.refusing_cluster import RefusingCluster
from support.refusing_commands import run
from support.typed_commands import ASKING, MORE, Argument
from tailrace.cli.daily import app, nodes


def commands(command: Any = None, path: str = "") -> Iterator[tuple[str, set[str]]]:
    """Each command with its options."""
    command = command or typer.main.get_command(app)
    if not hasattr(command, "list_commands"):
        yield path, {option for parameter in command.params for option in parameter.opts}
        return
    context = typer.Context(command)
    for name in command.list_commands(context):
        yield from commands(command.get_command(context, name), f"{path} {name}".strip())


def typed(words: list[str], monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.setattr(nodes, "Client", RefusingCluster().client)
    return CliRunner().invoke(app, words, env={"TAILRACE_BOOTSTRAP": "127.0.0.1:1"})


# Why a command has no --output.
WITHOUT = {
    "up": "argparse: typer would cost its start 70 ms; its own --json prints events",
    "demo": "argparse, as of up; what it prints is a story for people",
    "health": "argparse would cost a container's check a tenth of a second; its answer is the exit code",
    "controller": "a service: it prints a log, in the form of --log-format",
    "coordinator": "a service",
    "gateway": "a service",
    "completion": "it prints a program for a shell",
}


def test_every_command_has_output() -> None:
    without = {path for path, options in commands() if "--output" not in options}
    assert without == set(WITHOUT)
    assert all("--json" in options for path, options in commands() if path not in WITHOUT)


# --export is CSV, and -f a form of its own.
ALL_ROWS = [case for case in (*ASKING.items(), *MORE) if not {"--export", "-f"} & set(case[1])]


@pytest.mark.parametrize(("path", "arguments"), ALL_ROWS)
def test_programs_read_json_alone(
    path: str, arguments: tuple[Argument, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = run(monkeypatch, RefusingCluster(), path, (*arguments, "--output", "json"), tmp_path)
    lines = said.stdout.splitlines()
    # A plan of Kafka's tools is one document of several lines.
    documents = ["".join(lines)] if path in {"reassign generate", "reassign execute"} else lines
    assert [json.loads(document) for document in documents if document] or path == "consume", said.output
    wide = run(monkeypatch, RefusingCluster(), path, (*arguments, "--output", "wide"), tmp_path)
    status = 1 if path == "reassign verify" else 0  # whose plan is not done
    assert wide.exit_code == said.exit_code == status, wide.output


LISTS: tuple[tuple[list[str], dict[str, object]], ...] = (
    (
        ["topic", "list"],
        {
            "topic_name": "orders",
            "topic_id": "00000000-0000-0000-0000-000000000007",
            "is_internal": False,
            "replication_factor": 1,
            "partitions_count": 2,
        },
    ),
    (
        ["group", "list"],
        {"consumer_group_id": "readers", "state": "EMPTY", "type": "CLASSIC", "protocol_type": "consumer"},
    ),
    (
        ["config", "show", "topic", "orders"],
        {
            "name": "k",
            "value": "1",
            "is_read_only": False,
            "is_sensitive": False,
            "is_default": False,
            "source": "DYNAMIC_TOPIC_CONFIG",
        },
    ),
)


@pytest.mark.parametrize(("words", "row"), LISTS)
def test_programs_get_the_names_of_the_rest_api(
    words: list[str], row: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for option in (["--json"], ["--output", "json"]):
        assert json.loads(typed([*words, *option], monkeypatch).output) == [row]
    assert typed([*words, "--output", "table"], monkeypatch).output == typed(words, monkeypatch).output
    assert typed([*words, "--output", "xml"], monkeypatch).exit_code == 2


def test_the_form_of_a_command_that_could_not_be_read_is_not_that_of_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert typed(["topic", "list", "--json", "--unknown"], monkeypatch).exit_code == 2
    assert typed(["topic", "describe", "--json"], monkeypatch).exit_code == 2
    assert typed(["topic", "list"], monkeypatch).stdout.split()[0] == "orders"
