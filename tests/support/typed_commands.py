"""Every command of `tailrace` as one types it, with what may stand in the place of each argument.

A command without a row fails the tests that walk all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

import typer
from typer.core import TyperGroup

from tailrace.cli.daily import app

NOT_UTF8: Final = "\udcff"  # as Python has a byte of the command line that is none
LONG: Final = "x" * 300


class Kind(NamedTuple):
    """An argument: what is right, and what is wrong in ways of its own."""

    name: str
    right: str
    wrong: tuple[str, ...]


TOPIC: Final = Kind("topic", "orders", ("nope", "", "a/b", "é", LONG, NOT_UTF8))
NEW_TOPIC: Final = Kind("new topic", "letters", ("orders", "", "a/b", "..", "é", LONG, NOT_UTF8))
GROUP: Final = Kind("group", "readers", ("nope", "", "é", NOT_UTF8))
BROKER: Final = Kind("broker", "0", ("9", "-1", "", "x", "9" * 30, NOT_UTF8))
AWAY: Final = Kind("broker that is away", "1", ("9", "-1", "", "x", "9" * 30))
STAY: Final = Kind("number of brokers that stay", "1", ("0", "-7", "", "x"))
PARTITION: Final = Kind("partition", "0", ("99", "-1", "", "x", "9" * 30))
COUNT: Final = Kind("number of partitions", "3", ("0", "1", "-7", "", "x", "9" * 30, "2000000000"))
NEW_COUNT: Final = COUNT._replace(wrong=tuple(text for text in COUNT.wrong if text != "1"))
READER: Final = Kind("group, which may be new", "readers", ("", NOT_UTF8))
REPLICAS: Final = Kind("replication factor", "1", ("0", "-7", "9", "", "x", "40000"))
TOPIC_PAIR: Final = Kind(
    "topic config",
    "retention.ms=60000",
    ("retention.ms=abc", "no.such.key=1", "retention.ms", "=1", "", "retention.ms=" + NOT_UTF8, "log.dirs=/x"),
)
BROKER_PAIR: Final = Kind("broker config", "message.max.bytes=999999", ("message.max.bytes=abc", "no.such.key=1", "x"))
LOGGERS_BROKER: Final = Kind("broker with loggers", "0", (*BROKER.wrong, "default"))
LEVEL_PAIR: Final = Kind(
    "logger and level", "tailrace=INFO", ("tailrace=LOUD", "no.such.logger=INFO", "tailrace", "=INFO")
)
LOGGER: Final = Kind("logger", "tailrace", ("no.such.logger", "", NOT_UTF8))
WHERE: Final = Kind("place to begin", "earliest", ("yesterday", "", "99", "9" * 30, "s@x", "e@", NOT_UTF8))
FORMAT: Final = Kind("format of a record", "%o %s", ("%q", "%", "\\q", NOT_UTF8))
CONDITION: Final = Kind("condition", "offset >= 0", ("offset >=", "ofset == 1", "", NOT_UTF8))
HEADER: Final = Kind("header", "source=cli", ("source", "=cli", "", NOT_UTF8 + "=x"))
TOPIC_KEY: Final = Kind("topic key", "retention.ms", ("no.such.key", "", NOT_UTF8))
PLAN: Final = Kind("plan", "{plan}", ("{folder}", "{folder}/nope", "{no_plan}", "{binary}", "{unknown}", "{huge}", ""))
LOG_DIR: Final = Kind("log directory", "{log_dir}", ("/no/such/dir", "", NOT_UTF8))
IDS: Final = Kind("broker ids", "0", ("x", "0,9", ",", "9" * 30))
RATE: Final = Kind("bytes per second", "1000000", ("0", "-1", "x"))
TIME: Final = Kind("time", "2026-11-28T09:30:00.000", ("yesterday", "", "2026-11-28", "9" * 30, NOT_UTF8))
DURATION: Final = Kind("duration", "P1DT2H", ("1h", "", "P", "P1Y", NOT_UTF8))
EXPRESSION: Final = Kind("regular expression", "ord.*", ("(", "nope", "", NOT_UTF8))
OFFSET: Final = Kind("offset", "3", ("-1", "x", "", "9" * 30))
SHIFT: Final = Kind("number of records", "-1", ("x", "", "9" * 30))
TRANSACTION: Final = Kind("transactional id", "billing", ("nope", ""))
NEW_TRANSACTION: Final = Kind("transactional id, which may be new", "billing", ("",))
START: Final = Kind("start offset", "0", ("77", "-1", "", "x", "9" * 30))
LEVEL: Final = Kind(
    "feature", "transaction.version=2", ("nope=1", "transaction.version=9", "transaction.version=x", "")
)
LOWER: Final = Kind("feature", "transaction.version=1", ("nope=1", "transaction.version=x", "transaction.version", ""))
ACKS: Final = Kind("acks", "all", ("2", "", "x"))
CLIENT_ID: Final = Kind("client id or user", "billing", ("", NOT_UTF8))
ADDRESS: Final = Kind("IP address", "10.1.2.3", ("no.such.host", "", "10.1.2.3.4", NOT_UTF8))
QUOTA_PAIR: Final = Kind(
    "quota",
    "producer_byte_rate=1000",
    ("producer_byte_rate=0", "producer_byte_rate=-1", "producer_byte_rate=x", "producer_byte_rate=inf", "nope=1", "="),
)
USER: Final = Kind("user", "alice", ("", NOT_UTF8))
NEW_USER: Final = Kind("user", "bob", ("", NOT_UTF8))
MECHANISM: Final = Kind("mechanism", "SCRAM-SHA-512", ("PLAIN", "scram-sha-512", ""))
PRINCIPAL: Final = Kind("principal", "User:alice", ("alice", "", NOT_UTF8))
OPERATION: Final = Kind("operation", "read", ("reed", "", NOT_UTF8))
QUOTA_KEY: Final = Kind("quota's key", "connection_creation_rate", ("connection_creation_rat", "", NOT_UTF8))
Argument: TypeAlias = str | Kind

# By path in the app; the requests of these can be refused.
ASKING: Final[Mapping[str, tuple[Argument, ...]]] = {
    "topic list": (),
    "topic create": (NEW_TOPIC, "-p", NEW_COUNT, "-r", REPLICAS, "-c", TOPIC_PAIR),
    "topic describe": (TOPIC,),
    "topic offsets": (TOPIC, "-p", PARTITION, "-o", WHERE),
    "topic delete-records": (TOPIC, "-p", PARTITION, "--before", WHERE),
    "topic producers": (TOPIC, "-p", PARTITION, "--broker", BROKER),
    "topic alter": (TOPIC, "-p", COUNT),
    "topic delete": (TOPIC,),
    "group list": (),
    "group describe": (GROUP,),
    "group lag": (GROUP,),
    "group reset": (GROUP, "--to-datetime", TIME, "--execute"),
    "group delete": (GROUP,),
    "config show": ("broker", BROKER),
    "config set": ("topic", TOPIC, TOPIC_PAIR),
    "config unset": ("topic", TOPIC, TOPIC_KEY),
    "produce": (TOPIC, "--acks", ACKS),
    "consume": (TOPIC, "-g", READER, "-n", "0"),
    "acl list": ("--topic", TOPIC, "--principal", PRINCIPAL),
    "acl create": ("--allow-principal", PRINCIPAL, "--topic", TOPIC, "--operation", OPERATION),
    "acl delete": ("--principal", PRINCIPAL),
    "user list": (),
    "user create": (NEW_USER, "--mechanism", MECHANISM, "--password-file", "{plan}"),
    "user password": (USER, "--password-file", "{plan}"),
    "user delete": (USER,),
    "quota list": ("--client-id", CLIENT_ID, "--user", CLIENT_ID),
    "quota set": ("--client-id", CLIENT_ID, QUOTA_PAIR),
    "quota delete": ("--ip", ADDRESS, QUOTA_KEY),
    "broker list": (),
    "broker log-dirs": (),
    "broker move-replicas": (BROKER, LOG_DIR, "-t", TOPIC, "-p", PARTITION),
    "broker drain": (AWAY, "--throttle", RATE),
    "broker scale-down": (STAY, "--throttle", RATE),
    "broker may-stop": (BROKER,),
    "broker unregister": (AWAY,),
    "reassign generate": ("-t", TOPIC, "--brokers", IDS, "-r", REPLICAS),
    "reassign execute": (PLAN, "--throttle", RATE),
    "reassign verify": (PLAN,),
    "reassign list": (),
    "reassign cancel": (PLAN,),
    "elect-leaders": ("-t", TOPIC, "-p", PARTITION),
    "transaction list": (),
    "transaction describe": (TRANSACTION,),
    "transaction find-hanging": ("-t", TOPIC, "-p", PARTITION),
    "transaction abort": ("-t", TOPIC, "-p", PARTITION, "--start-offset", START),
    "transaction terminate": (NEW_TRANSACTION,),
    "feature list": (),
    "feature upgrade": (LEVEL,),
    "feature downgrade": (LOWER,),
}
# Other resources of the same commands.
MORE: Final[tuple[tuple[str, tuple[Argument, ...]], ...]] = (
    ("config show", ("topic", TOPIC)),
    ("group reset", ("readers", "-t", TOPIC, "--by-duration", DURATION, "--execute")),
    ("group reset", ("readers", "--topic-regex", EXPRESSION, "--to-offset", OFFSET)),
    ("group reset", ("readers", "--shift-by", SHIFT, "--export")),
    ("consume", (TOPIC, "-p", PARTITION, "-o", WHERE, "-f", FORMAT, "--filter", CONDITION, "-n", "0")),
    ("produce", (TOPIC, "-p", PARTITION, "-H", HEADER)),
    ("config show", ("broker-logger", LOGGERS_BROKER)),
    ("config set", ("broker-logger", LOGGERS_BROKER, LEVEL_PAIR)),
    ("config unset", ("broker-logger", LOGGERS_BROKER, LOGGER)),
    ("config set", ("broker", BROKER, BROKER_PAIR)),
    ("config set", ("broker", "default", BROKER_PAIR)),
    ("elect-leaders", ()),
    ("reassign cancel", ("--all",)),
)
# These ask nobody by Kafka's protocol; the tests that are named look at what they refuse.
OTHERS: Final[Mapping[str, str]] = {
    "up": "cli/test_plan.py",
    "demo": "cli/demo/test_failure.py",
    "controller": "runtime/test_process.py",
    "coordinator": "runtime/test_process.py",
    "gateway": "runtime/test_process.py",
    "quota top": "cli/daily/test_quotas.py",
    "status": "cli/daily/test_status.py",
    "doctor": "cli/doctor/test_examination.py",
    "sql": "frames/test_topic.py",
    "perf produce": "cli/perf/test_stats.py",
    "perf consume": "cli/perf/test_stats.py",
    "perf end-to-end": "cli/perf/test_stats.py",
    "health": "runtime/test_health.py",
    "completion": "cli/test_completion.py",
    "dump-log": "cli/files/test_dump.py",
    "verify-log": "cli/files/test_dump.py",
    "import-kafka": "cli/files/test_importing.py",
    "export-kafka": "cli/files/test_exporting.py",
    "table run": "cli/table/test_command.py",
    "user reset-admin": "cli/secure/test_reset.py",
    "cert create": "cli/secure/test_command.py",
    "cert renew": "cli/secure/test_command.py",
    "cert list": "cli/secure/test_command.py",
}


def command_names() -> Iterator[str]:
    """The paths of all commands, from the app itself."""
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    with root.make_context("tailrace", [], resilient_parsing=True) as context:
        for name in root.list_commands(context):
            command = root.get_command(context, name)
            yield from (f"{name} {inner}" for inner in command.commands) if isinstance(command, TyperGroup) else (name,)


def right(path: str, arguments: tuple[Argument, ...]) -> list[str]:
    """The command line without a mistake."""
    return [*path.split(" "), *(part if isinstance(part, str) else part.right for part in arguments)]


def wrong(path: str, arguments: tuple[Argument, ...]) -> Iterator[list[str]]:
    """Command lines with one mistake each."""
    words = right(path, arguments)
    begin = len(words) - len(arguments)
    for at, part in enumerate(arguments):
        for text in part.wrong if isinstance(part, Kind) else ():
            yield [*words[: begin + at], text, *words[begin + at + 1 :]]
