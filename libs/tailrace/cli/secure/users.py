"""`tailrace user list|create|password|delete|reset-admin`: who may log in with a password (KIP-554).

A password comes from a prompt, a file or stdin, never from the command line, which every user of a machine can read.
With --data the command asks the cluster's controller on this machine, by its Unix socket, which needs no login.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from tailrace.access.scram import (
    DEFAULT_ITERATIONS,
    MAX_ITERATIONS,
    MECHANISMS,
    MIN_ITERATIONS,
    SALT_BYTES,
    ScramMechanism,
    salted,
)
from tailrace.cli.daily.connection import Bootstrap, Json, given, say, table
from tailrace.cli.daily.nodes import Nodes, nodes
from tailrace.cli.daily.refusals import RefusedError, Yes, confirm
from tailrace.cli.secure.first_user import FirstUserRefused, alter_user
from tailrace.cli.secure.reset import controllers_of, reset_admin
from tailrace.wire import messages as m

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="Users that log in with a password."
)
_MOST_PASSWORD_BYTES: Final = 255  # as PLAIN has it (RFC 4616)


def _mechanisms(names: list[str] | None) -> list[str]:
    wrong = next((name for name in names or () if name not in MECHANISMS), None)
    if wrong is not None:
        raise typer.BadParameter(f"{wrong!r} is none of {', '.join(MECHANISMS)}")
    return names or []


Name = Annotated[str, typer.Argument(help="user name", callback=given)]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option("--mechanism", metavar="NAME", help=f"{', '.join(MECHANISMS)}; may be repeated", callback=_mechanisms),
]
Iterations = Annotated[
    int, typer.Option("--iterations", min=MIN_ITERATIONS, max=MAX_ITERATIONS, help="how costly a guess is")
]
PasswordFile = Annotated[
    Path | None,
    typer.Option("--password-file", metavar="FILE", help="its first line; default: asked for, or the first of stdin"),
]
Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="of a cluster on this machine: asks its controller, without a login"),
]


@app.command("list")
def list_users(as_data: Json = False, bootstrap: Bootstrap = None) -> None:
    """Every user, with the mechanisms of its credentials."""
    with nodes(bootstrap) as cluster:
        users = _described(cluster)
    rows = [(name, ScramMechanism(one).label, count) for name, infos in users.items() for one, count in infos.items()]
    if as_data:
        keys = ("user", "mechanism", "iterations")
        say(json.dumps([dict(zip(keys, row, strict=True)) for row in sorted(rows)]))
    else:
        table(("user", "mechanism", "iterations"), list(sorted(rows)))


@app.command()
def create(
    name: Name,
    mechanism: Mechanisms = None,
    iterations: Iterations = DEFAULT_ITERATIONS,
    password_file: PasswordFile = None,
    data: Data = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Create a user; without --mechanism for both of SCRAM, so that any client logs in."""
    password = _password(password_file)
    requests = _upsertions(
        name, [MECHANISMS[one] for one in mechanism or ()] or list(ScramMechanism), iterations, password
    )
    if data is not None:
        _ask_controllers(data.expanduser().absolute(), requests)
    else:
        with nodes(bootstrap) as cluster:
            if name in _described(cluster):
                raise RefusedError(f"The user {name} exists; `tailrace user password` changes its password.")
            for request in requests:
                cluster.ask(request, 0)
    say(f"{name} can log in.")


@app.command("password")
def change_password(
    name: Name,
    iterations: Iterations = DEFAULT_ITERATIONS,
    password_file: PasswordFile = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Change the password of a user, in each of its credentials. Connections that are open stay."""
    password = _password(password_file)
    with nodes(bootstrap) as cluster:
        for request in _upsertions(name, [ScramMechanism(one) for one in _known(cluster, name)], iterations, password):
            cluster.ask(request, 0)
    say(f"The password of {name} is changed.")


@app.command()
def delete(name: Name, yes: Yes = False, bootstrap: Bootstrap = None) -> None:
    """Delete a user. Connections that are open stay."""
    confirm(f"Delete the user {name}?", yes=yes)
    deletion = m.AlterUserScramCredentialsRequest.ScramCredentialDeletion
    with nodes(bootstrap) as cluster:
        for mechanism in _known(cluster, name):
            row = deletion(name=name, mechanism=mechanism)
            cluster.ask(m.AlterUserScramCredentialsRequest(deletions=[row], upsertions=[]), 0)
    say(f"{name} is deleted.")


def _described(cluster: Nodes) -> dict[str, dict[int, int]]:
    """Iterations by user and mechanism."""
    answer = cluster.ask(m.DescribeUserScramCredentialsRequest(users=None), 0)
    return {row.user: {info.mechanism: info.iterations for info in row.credential_infos} for row in answer.results}


def _known(cluster: Nodes, name: str) -> dict[int, int]:
    """The credentials of a user that is there."""
    found = _described(cluster).get(name)
    if not found:
        raise RefusedError(f"There is no user {name}; `tailrace user list` names the users.")
    return found


def _upsertions(
    name: str, mechanisms: list[ScramMechanism], iterations: int, password: str
) -> list[m.AlterUserScramCredentialsRequest]:
    """One for each mechanism: Kafka refuses a user that one request names twice."""
    upsertion = m.AlterUserScramCredentialsRequest.ScramCredentialUpsertion
    requests = []
    for mechanism in mechanisms:
        salt = secrets.token_bytes(SALT_BYTES)
        key = salted(mechanism, password, salt, iterations)
        row = upsertion(name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=key)
        requests.append(m.AlterUserScramCredentialsRequest(deletions=[], upsertions=[row]))
    return requests


def _ask_controllers(data_dir: Path, requests: list[m.AlterUserScramCredentialsRequest]) -> None:
    """By the Unix sockets of this machine's controllers; a refusal ends the command with one sentence and status 1."""
    try:
        for request in requests:
            asyncio.run(alter_user(controllers_of(data_dir), request))
    except FirstUserRefused as refused:
        say(str(refused), err=True)
        raise typer.Exit(1) from None


def _password(file: Path | None) -> str:
    """One line. A usage error for none, or one that PLAIN could not carry."""
    if file is not None:
        try:
            text = file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"--password-file {file} cannot be read: {error}") from None
    elif sys.stdin.isatty():
        text = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        text = sys.stdin.readline()
    password = text.splitlines()[0] if text else ""
    if not password or "\0" in password or len(password.encode()) > _MOST_PASSWORD_BYTES:
        raise typer.BadParameter(f"a password has 1 to {_MOST_PASSWORD_BYTES} bytes, without NUL")
    return password


app.command("reset-admin")(reset_admin)
