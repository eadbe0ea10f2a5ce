"""The commands for daily use: `tailrace topic|produce|consume|group|transaction|config|status` as any client would, and
what an operator needs: `tailrace broker|reassign|feature|elect-leaders`. Each module is imported when its command is
used."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup

from tailrace.cli.completion import is_asked, prepare, typed
from tailrace.cli.preload import kafka_without_clients


class Command(NamedTuple):
    """Where a command is, and the line of `tailrace --help` about it, which no module is imported for."""

    module: str
    name: str
    about: str


_HELP: Final = ["-h", "--help"]
_DAILY: Final = "tailrace.cli.daily"
_WITHOUT_OUTPUT: Final = ("completion",)  # it prints a program for a shell
_USERS: Final = "tailrace.cli.secure.users"
_FILES: Final = "tailrace.cli.files"
_ASKING: Final = (
    _DAILY,
    _USERS,
    "tailrace.cli.doctor",
    "tailrace.cli.perf",
    "tailrace.cli.sql",
)  # which have --timeout
_ELSEWHERE: Final = "these start before typer is loaded (command.py); they are here for --help alone"
COMMANDS: Final = {
    "up": Command(_ELSEWHERE, "", "Start a whole cluster on this machine."),
    "status": Command(f"{_DAILY}.status", "status", "Show a cluster and this machine's processes on one screen."),
    "health": Command(_ELSEWHERE, "", "Say by the exit code if the processes of a directory are well."),
    "doctor": Command("tailrace.cli.doctor.command", "doctor", "Say step by step what a client would be told."),
    "topic": Command(f"{_DAILY}.topics", "app", "Topics and their partitions."),
    "produce": Command(f"{_DAILY}.records.produce", "produce", "Write each line of stdin as one record."),
    "consume": Command(f"{_DAILY}.records.consume", "consume", "Print each record's value as one line."),
    "group": Command(f"{_DAILY}.groups.commands", "app", "Consumer groups, their members and their lag."),
    "transaction": Command(
        f"{_DAILY}.transactions.commands", "app", "Transactions: show them, find those that hang, end one."
    ),
    "perf": Command("tailrace.cli.perf.command", "app", "Measure writing, reading, and the way of a record."),
    "sql": Command("tailrace.cli.sql.command", "sql", "Query the records of topics by SQL."),
    "table": Command("tailrace.cli.table.command", "app", "Topics as tables of Delta Lake."),
    "config": Command(f"{_DAILY}.configs", "app", "Configs of topics and brokers."),
    "user": Command(_USERS, "app", "Users that log in with a password."),
    "quota": Command(f"{_DAILY}.quotas", "app", "Limits of clients, and who uses how much; or run a quota service."),
    "acl": Command(f"{_DAILY}.acls.commands", "app", "ACLs: who may do what, and from where."),
    "broker": Command(f"{_DAILY}.brokers", "app", "List brokers, empty one, forget one; or run one."),
    "reassign": Command(f"{_DAILY}.reassignments", "app", "Move replicas between brokers."),
    "feature": Command(f"{_DAILY}.features", "app", "Features and their levels."),
    "elect-leaders": Command(f"{_DAILY}.elections", "elect_leaders", "Give partitions to their preferred leaders."),
    "dump-log": Command(f"{_FILES}.dump", "dump_log", "Show what files of a log directory hold."),
    "verify-log": Command(f"{_FILES}.verify", "verify_log", "Check the files of log directories."),
    "import-kafka": Command(f"{_FILES}.importing", "import_kafka", "Take over a stopped Apache Kafka's directories."),
    "export-kafka": Command(f"{_FILES}.exporting", "export_kafka", "Write directories that Apache Kafka starts on."),
    "cert": Command("tailrace.cli.secure.command", "app", "Certificates of a cluster: make, renew and list them."),
    "demo": Command(_ELSEWHERE, "", "Stream this machine's log lines through a cluster."),
    "completion": Command("tailrace.cli.completion", "completion", "Print what makes a shell complete commands."),
    "controller": Command(_ELSEWHERE, "", "Run one controller."),
    "coordinator": Command(_ELSEWHERE, "", "Run one coordinator."),
    "gateway": Command(_ELSEWHERE, "", "Run one gateway."),
}


class _Commands(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = cast("dict[str, Any]", dict.fromkeys(COMMANDS))  # their names, for "Did you mean …?"

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        if is_asked() and cmd_name not in typed():  # its name alone, for which no module is imported
            return TyperCommand(cmd_name, help=COMMANDS[cmd_name].about)
        return _loaded(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.about) for name, command in COMMANDS.items()])


def _loaded(name: str) -> Any:
    """A command as click has it."""
    command = COMMANDS[name]
    if command.module == _ELSEWHERE:
        found: Any = _started_earlier
    else:
        with kafka_without_clients():
            found = getattr(import_module(command.module), command.name)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        alone.command(name, help=command.about if command.module == _ELSEWHERE else None)(found)
        found = alone
    made = typer.main.get_command(found)
    _add_short_help(made)
    if command.module.startswith(_ASKING):
        from tailrace.cli.daily.deadline import add_timeout

        add_timeout(made)
    if command.module != _ELSEWHERE and name not in _WITHOUT_OUTPUT:
        from tailrace.cli.daily.output import add_output

        add_output(cast("TyperCommand | TyperGroup", made))
    return made


def _add_short_help(command: Any) -> None:
    """-h beside --help, of a command and of those in it."""
    command.context_settings["help_option_names"] = _HELP
    for inner in getattr(command, "commands", {}).values():
        _add_short_help(inner)


def _started_earlier(arguments: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    raise typer.Exit(2)


def _about(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.")
    ] = False,  # command.py answers
    command_config: Annotated[
        str | None,
        typer.Option(
            "--command-config",
            metavar="FILE",
            help="Client settings with Kafka's keys, as security.protocol=SSL, for commands that ask a cluster; also "
            "TAILRACE_COMMAND_CONFIG. It stands before COMMAND.",
        ),
    ] = None,
) -> None:
    """Tailrace, a log that speaks Kafka's protocol. `tailrace COMMAND --help` says more about each command."""
    if command_config is not None:
        os.environ["TAILRACE_COMMAND_CONFIG"] = command_config  # connection.py, imported with a command, reads it


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": _HELP},
)
app.callback()(_about)
if is_asked():
    prepare()
