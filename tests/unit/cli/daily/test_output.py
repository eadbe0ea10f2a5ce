"""`--output json` is `--json`, of every command that has it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from support.refusing_cluster import RefusingCluster
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


def test_every_command_that_has_json_has_output_too() -> None:
    found = dict(commands())
    without = {path for path, options in found.items() if "--json" in options and "--output" not in options}
    assert without == {"produce", "consume"}  # whose --json is a form of records
    assert sum("--output" in options for options in found.values()) >= 20


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
        {"consumer_group_id": "readers", "state": "Empty", "type": "classic", "protocol_type": "consumer"},
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
