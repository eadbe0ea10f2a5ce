"""The commands for daily use: `tailrace topic|produce|consume|group|config|status` as any client would, and what an
operator needs: `tailrace broker|reassign|elect-leaders`."""

from __future__ import annotations

from typing import Annotated

import typer

from tailrace.cli.daily import brokers, configs, elections, groups, producers, reassignments, records, status, topics
from tailrace.cli.files import dump, exporting, importing, verify

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Tailrace, a log that speaks Kafka's protocol.",
    pretty_exceptions_enable=False,
)
topics.app.command("producers")(producers.producers)
app.add_typer(topics.app, name="topic")
app.add_typer(groups.app, name="group")
app.add_typer(configs.app, name="config")
app.add_typer(brokers.app, name="broker")
app.add_typer(reassignments.app, name="reassign")
app.command("elect-leaders")(elections.elect_leaders)
app.command("produce")(records.produce)
app.command("consume")(records.consume)
app.command("status")(status.status)
app.command("dump-log")(dump.dump_log)
app.command("verify-log")(verify.verify_log)
app.command("import-kafka")(importing.import_kafka)
app.command("export-kafka")(exporting.export_kafka)

# These start before typer is loaded (command.py); they are here for --help alone.
_STARTED_EARLIER = {
    "up": "Start a whole cluster on this machine.",
    "demo": "Stream this machine's log lines through a cluster.",
    "controller": "Run one controller.",
    "coordinator": "Run one coordinator.",
    "gateway": "Run one gateway.",
    "quota": "Run one quota service.",
}


def _named(name: str, about: str) -> None:
    def command(arguments: Annotated[list[str] | None, typer.Argument()] = None) -> None:
        raise typer.Exit(2)

    app.command(name, help=f"{about} `tailrace {name} --help` lists its options.")(command)


for _name, _about in _STARTED_EARLIER.items():
    _named(_name, _about)
