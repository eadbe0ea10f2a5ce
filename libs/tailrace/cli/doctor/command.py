"""`tailrace doctor`: what a client would be told, from the bootstrap address to a record that is read back."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from tailrace.cli.daily.connection import Bootstrap, address, command_settings, given, say
from tailrace.cli.daily.nodes import CLIENT_ID, nodes
from tailrace.cli.daily.output import is_json, show
from tailrace.cli.doctor.examination import ExaminedClient, examine
from tailrace.cli.doctor.finding import State, StepFinding
from tailrace.net.address import Address

_COLUMNS: Final = {"step": "step", "state": "state", "sentence": "what was found", "advice": "what to do"}


def doctor(
    topic: Annotated[
        str | None,
        typer.Option("--topic", "-t", callback=given, help="look at this topic alone, and read its last records"),
    ] = None,
    write: Annotated[
        bool,
        typer.Option(
            "--write", help="write a record and read it back: to a topic of its own, which is deleted, or --topic"
        ),
    ] = False,
    client_id: Annotated[str, typer.Option("--client-id", help="as the client has it, for its quotas")] = CLIENT_ID,
    bootstrap: Bootstrap = None,
) -> None:
    """Say step by step what a client would be told, and what to set; status 0 if it would work, 1 if not.

    It takes the client's --command-config. Without --write it changes nothing.
    """
    where, settings = address(bootstrap), command_settings()
    found: list[StepFinding] = []
    with nodes(bootstrap, client_id=client_id) as cluster:
        addresses = tuple(Address.parse(text.strip()) for text in where.split(","))
        for finding in examine(cluster, ExaminedClient(addresses, settings, client_id, topic, write)):
            found.append(finding)
            if not is_json():
                _print(finding)
    failed = any(finding.state is State.FAIL for finding in found)
    if is_json():
        steps = [finding._asdict() for finding in found]
        show(steps, _COLUMNS, data={"state": "fail" if failed else "ok", "steps": steps})
    if failed:
        raise typer.Exit(1)


def _print(finding: StepFinding) -> None:
    say(f"{finding.state:<5} {finding.step:<13} {finding.sentence}")
    if finding.advice:
        say(f"{'':<19} -> {finding.advice}")
