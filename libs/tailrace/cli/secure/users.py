"""`tailrace user list|create|password|delete|reset-admin`: who may log in with a password (KIP-554).

A password comes from a prompt, a file or stdin, never from the command line, which every user of a machine can read.
With --data the command asks the cluster's controller on this machine, by its Unix socket, which needs no login, or over
TCP with the cluster's secret.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

from tailrace.access.scram import (
    DEFAULT_ITERATIONS,
    MAX_ITERATIONS,
    MECHANISMS,
    MIN_ITERATIONS,
    ScramMechanism,
)
from tailrace.cli.daily.connection import Bootstrap, given, say
from tailrace.cli.daily.nodes import Nodes, nodes
from tailrace.cli.daily.output import done, show
from tailrace.cli.daily.refusals import RefusedError, Yes, confirm
from tailrace.cli.secure.first_user import FirstUserRefused, alter_user
from tailrace.cli.secure.reset import controllers_of, reset_admin
from tailrace.net.sasl.user_messages import deletions, invalid_password, upsertions
from tailrace.wire import messages as m

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="Users that log in with a password."
)


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
def list_users(bootstrap: Bootstrap = None) -> None:
    """Every user, with the mechanisms of its credentials."""
    with nodes(bootstrap) as cluster:
        users = _described(cluster)
    rows = [
        {"user_name": name, "mechanism": ScramMechanism(one).label, "iterations": count}
        for name, infos in sorted(users.items())
        for one, count in sorted(infos.items())
    ]
    data = [
        {
            "user_name": name,
            "credentials": [
                {key: row[key] for key in ("mechanism", "iterations")} for row in rows if row["user_name"] == name
            ],
        }
        for name in sorted(users)
    ]
    show(rows, {"user_name": "user", "mechanism": "mechanism", "iterations": "iterations"}, data=data)


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
    mechanisms = [MECHANISMS[one] for one in mechanism or ()] or list(ScramMechanism)
    requests = list(upsertions(name, mechanisms, iterations, password, secrets.token_bytes))
    if data is not None:
        _ask_controllers(data.expanduser().absolute(), requests)
    else:
        with nodes(bootstrap) as cluster:
            if name in _described(cluster):
                raise RefusedError(f"The user {name} exists; `tailrace user password` changes its password.")
            for request in requests:
                cluster.ask(request, 0)
    done(f"{name} can log in.", user_name=name)


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
        mechanisms = [ScramMechanism(one) for one in _known(cluster, name)]
        for request in upsertions(name, mechanisms, iterations, password, secrets.token_bytes):
            cluster.ask(request, 0)
    done(f"The password of {name} is changed.", user_name=name)


@app.command()
def delete(name: Name, yes: Yes = False, bootstrap: Bootstrap = None) -> None:
    """Delete a user. Connections that are open stay."""
    confirm(f"Delete the user {name}?", yes=yes)
    with nodes(bootstrap) as cluster:
        for request in deletions(name, _known(cluster, name)):
            cluster.ask(request, 0)
    done(f"{name} is deleted.", user_name=name)


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


def _ask_controllers(data_dir: Path, requests: list[m.AlterUserScramCredentialsRequest]) -> None:
    """The controllers of this machine; a refusal ends the command with one sentence and status 1."""
    try:
        controllers, login = controllers_of(data_dir)
        for request in requests:
            asyncio.run(alter_user(controllers, request, login))
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
    if (why := invalid_password(password)) is not None:
        raise typer.BadParameter(why)
    return password


app.command("reset-admin")(reset_admin)
