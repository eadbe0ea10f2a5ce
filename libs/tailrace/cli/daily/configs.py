"""`tailrace config`: show and change what topics and brokers are set to."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tailrace.cli.daily.connection import Bootstrap, client, pairs, table

app = typer.Typer(no_args_is_help=True, help="Configs of topics and brokers.")
Kind = Annotated[str, typer.Argument(help="topic or broker")]
Name = Annotated[str, typer.Argument(help="topic name or broker id")]


def resource(kind: str, name: str, configs: Any = None) -> Any:
    """kafka-python's description of one resource."""
    from kafka.admin import ConfigResource

    if kind not in {"topic", "broker"}:
        raise typer.BadParameter(f"{kind}: expected topic or broker")
    return ConfigResource(kind, name, configs)


@app.command()
def show(
    kind: Kind,
    name: Name,
    everything: Annotated[bool, typer.Option("--all", help="defaults too")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Print what was changed, or everything."""
    with client("KafkaAdminClient", bootstrap) as admin:
        found = admin.describe_configs([resource(kind, name)], config_filter="all" if everything else "modified")
    entries = found[kind][name]
    table(
        ("key", "value", "from"),
        [(key, entry["value"], entry["config_source"].lower()) for key, entry in sorted(entries.items())],
    )


@app.command("set")
def set_configs(
    kind: Kind,
    name: Name,
    settings: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...")],
    bootstrap: Bootstrap = None,
) -> None:
    """Change configs."""
    with client("KafkaAdminClient", bootstrap) as admin:
        admin.alter_configs([resource(kind, name, pairs(settings))])
    typer.echo(f"changed {kind} {name}")


@app.command()
def unset(
    kind: Kind,
    name: Name,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...")],
    bootstrap: Bootstrap = None,
) -> None:
    """Go back to the defaults."""
    with client("KafkaAdminClient", bootstrap) as admin:
        admin.reset_configs([resource(kind, name, keys)])
    typer.echo(f"changed {kind} {name}")
