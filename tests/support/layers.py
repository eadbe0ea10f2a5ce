"""`./test [LAYER...] [pytest options]`: runs the layers in order, cheap ones first, and says what was left out.

REQUIRE_ALL=1 makes a left-out layer, and a skip that tests/skips.txt does not explain, a failure.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from support import debian
from support.commands import ROOT, environment, running, side_by_side, stream

BIN = Path(sys.executable).parent
# A tool and the Debian package that has it.
PACKAGES = {
    "gcc": "build-essential",  # compiles what is preloaded into a service: a slow disk, a failing one, another clock
    "kcat": "kcat",
    "java": "openjdk-17-jre-headless",
    "javac": "openjdk-17-jdk-headless",  # java compiles ToolServer.java as it starts it
    "mvn": "maven",
    "postgres": "postgresql",
    "redis-server": "redis-server",
}
SOURCES = ("libs", "services", "spark", "tests")


@dataclass(frozen=True)
class Layer:
    """Commands that must all succeed; without commands it is pytest on tests/<name>."""

    about: str
    tools: tuple[str, ...] = ()
    default: bool = True
    commands: tuple[tuple[str, ...], ...] = ()
    extra: str = ""  # of pyproject.toml; installed when the layer runs, for what is too large to give everyone
    jars: Callable[[], Path] | None = None  # fetches them with Maven, or finds them in .cache
    before: Callable[[], Path] | None = None  # a folder with packages that are found before the installed ones
    tests: tuple[str, ...] = ()  # where they are not tests/<name>
    engine: bool = False  # needs a Docker engine, which is set up beside the layers that run first
    beside: tuple[str, ...] = ()  # of its tests, about half: a second pytest runs them meanwhile, on the other core


@dataclass
class Result:
    outcome: str
    seconds: float
    closing: str = ""


@dataclass
class Run:
    """What happened so far."""

    results: dict[str, Result] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def tool(name: str, *arguments: str) -> tuple[str, ...]:
    return (str(BIN / name), *arguments)


def module(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name, *arguments)


def tests_of(layer: str, names: str) -> tuple[str, ...]:
    """Some of a layer's files."""
    return tuple(f"tests/{layer}/test_{name}.py" for name in names.split())


def kafka_jars() -> Path:
    """Apache Kafka's jars (Maven)."""
    from support import kafka_peer

    os.environ["KAFKA_LIBS"] = str(kafka_peer.libs())
    return kafka_peer.libs()


def kafka_classes() -> Path:
    """Apache Kafka's jars (Maven), and their classes as Java maps them."""
    from support import kafka_peer

    found = kafka_jars()
    kafka_peer.make_archive()
    return found


def compat_peers() -> Path:
    """Apache Kafka's jars and classes (Maven), kafka-python's own tests (pip)."""
    from support import kafka_python_suite

    kafka_classes()
    return kafka_python_suite.folder()


def connector_jars() -> Path:
    """The jars of Spark's Kafka connector (Maven)."""
    from support import spark_jars

    return spark_jars.libs()


def newest_connector_jars() -> Path:
    """The jars of the newest Spark's Kafka connector (Maven)."""
    from support import spark_jars

    return spark_jars.libs(spark_jars.NEWEST)


def newest_pyspark() -> Path:
    """The newest PySpark, aside of the installed one."""
    from support import spark_jars

    return spark_jars.newest_pyspark()


LAYERS = {
    "gate": Layer(
        "format, lint, types, import contracts, generated files, forbidden sleeps, abuse in its short form",
        commands=(
            tool("ruff", "format", "--check", *SOURCES),
            tool("ruff", "check", *SOURCES),
            tool("mypy", *SOURCES),
            tool("lint-imports", "--no-logo"),
            module("tailrace.wire.stubs", "--check"),
            module("tailrace.config.generate", "--check"),
            module("pytest", "-q", "tests/unit/test_architecture.py", "tests/unit/test_layout.py"),
            module("pytest", "-q", "tests/abuse/test_at_once.py", "--scale", "0.02", "--requests", "40"),
        ),
    ),
    "unit": Layer(
        "pure files and tables; seconds",
        beside=tuple(f"tests/unit/{name}" for name in ("gateway", "log", "net", "records")),
    ),
    "protocol": Layer(
        "every API and version: round trips, arbitrary chunks, hostile frames", tools=("java", "mvn"), jars=kafka_jars
    ),
    "sim": Layer("real decisions in a seeded world of faults", beside=("tests/sim/log",)),
    "integration": Layer(
        "real processes and sockets",
        tools=("postgres", "redis-server"),
        beside=tuple(f"tests/integration/{name}" for name in ("controller", "gateway", "quota", "test_cli.py")),
    ),
    "compat": Layer(
        "real clients against Tailrace and Apache Kafka",
        tools=("kcat", "javac", "mvn"),
        jars=compat_peers,
        beside=(
            "tests/compat/replication",
            *tests_of("compat", "dump_log_figures dump_log_segments moving moving_groups"),
        ),
    ),
    "fault": Layer(
        "kill -9, SIGSTOP, full disks; a checker reads back",
        tools=("postgres", "gcc"),
        beside=tests_of(
            "fault",
            "bits_flip cleaner_dies cold_process_dies log_dirs_fail moving_is_cut_short power_fails processes_die",
        ),
    ),
    "abuse": Layer(
        "one client's largest and worst requests beside everybody else's; --scale 1 for full sizes, --seed, --requests"
    ),
    "containers": Layer(
        "the image, compose files and a cluster in containers, hurt under load; needs Docker",
        engine=True,
        beside=tests_of("containers", "image container services two_versions"),
    ),
    "spark": Layer(
        "the stock Spark connector and the jobs of spark/",
        tools=("java", "mvn"),
        extra="spark",
        jars=connector_jars,
        beside=("tests/spark/logs", *tests_of("spark", "demo suggestions")),
    ),
    "spark-newest": Layer(
        "the stock connector on PySpark 4.2.0; a gigabyte, so only where it is named",
        tools=("java", "mvn"),
        default=False,
        extra="spark",
        jars=newest_connector_jars,
        before=newest_pyspark,
        tests=tests_of("spark", "connector_batch connector_sink connector_stream connector_transactions once"),
    ),
    "bench": Layer("speed beside Apache Kafka; reports only", default=False, commands=(module("bench"),)),
}


def say(text: str) -> None:
    print(f"\033[1m== {text}\033[0m" if sys.stdout.isatty() else f"== {text}", flush=True)


def usage() -> str:
    rows = [f"  {name:12} {layer.about}" for name, layer in LAYERS.items()]
    return "./test [LAYER...] [pytest options]\nAll but spark-newest and bench where none is named:\n" + "\n".join(rows)


def choose(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The layers named first, and the rest for pytest."""
    names = []
    while arguments and arguments[0] in LAYERS:
        names.append(arguments[0])
        arguments = arguments[1:]
    if not names and arguments and not arguments[0].startswith("-"):
        raise SystemExit(f"{arguments[0]} is not a layer.\n{usage()}")
    return names or [name for name, layer in LAYERS.items() if layer.default], arguments


def is_there(name: str) -> bool:
    """Debian keeps a database's server off the PATH."""
    if name == "postgres":
        from support import postgres

        return postgres.binary(name) is not None
    return shutil.which(name) is not None


def install(tools: tuple[str, ...]) -> str | None:
    """Installs what is missing where that is possible; returns the line that would, where it is not."""
    missing = [PACKAGES[name] for name in tools if not is_there(name)]
    if not missing:
        return None
    print(f"Debian packages, installed if this is root: {' '.join(missing)}", flush=True)
    return debian.install(missing)


def install_extra(extra: str) -> str | None:
    """Installs one more extra of pyproject.toml into this environment; returns the line that would, where it failed."""
    say(f"Installing Tailrace's extra {extra}: the first time a minute or two")
    done = subprocess.run(("bash", "-euc", f". .ci/setup.sh; add_extra {extra}"), cwd=ROOT, check=False)
    return None if done.returncode == 0 else f"pip install -c constraints.txt -e '.[{extra}]'"


def fetch(what: Callable[[], Path]) -> str | None:
    """Jars or packages into .cache the first time; returns what went wrong."""
    name = (what.__doc__ or "").partition(".")[0]
    try:
        print(f"{name}: fetched into .cache the first time", flush=True)
        what()
    except (OSError, subprocess.CalledProcessError) as error:
        return f"{name} could not be fetched: {error}"
    return None


class Engine:
    """A Docker engine with its images, made ready from the first layer on; stopped at the end if it was started."""

    def __init__(self, stack: ExitStack) -> None:
        run = str(os.getpid())  # a test runs this for itself, beside the run that it is part of
        command = ("nice", *module("support.docker_engine", "up", run))
        # First, so that it runs last: an `up` that has not ended may start a dockerd yet.
        stack.callback(subprocess.run, module("support.docker_engine", "down", run), cwd=ROOT, check=False)
        self._process, self._output = stack.enter_context(running(command, environment(None)))

    def wait(self) -> str | None:
        """Returns when it is ready; what would help where it cannot be had."""
        print("Docker's engine and images are waited for: minutes the first time", flush=True)
        if (status := self._process.wait()) == 0:
            return None
        self._output.seek(0)
        *_, last = ["", *self._output.read().strip().splitlines()]
        return last or f"python -m support.docker_engine up, which ended with {status} and without a word"


def prepare(layer: Layer, engine: Engine | None) -> str | None:
    """Tools, packages and jars of a layer; returns the line that would help where one cannot be had."""
    line = engine.wait() if layer.engine and engine else install(layer.tools)
    if line is None and layer.extra:
        line = install_extra(layer.extra)
    for what in (layer.jars, layer.before):
        if line is None and what:
            line = fetch(what)
    return line


def pytest_command(*arguments: str) -> tuple[str, ...]:
    """On tests, with every skip explained."""
    colour = ["--color=yes"] if sys.stdout.isatty() else []
    return module("pytest", "-q", "-p", "support.skips", *arguments, *colour)


def shown(command: tuple[str, ...]) -> str:
    """As one would type it."""
    return " ".join(command).replace(f"{BIN}/", "").replace(str(ROOT), ".")


def run_layer(name: str, options: list[str]) -> Result:
    layer = LAYERS[name]
    began = time.monotonic()
    environ = environment(layer.before and layer.before())
    where = layer.tests or (f"tests/{name}",)
    commands = layer.commands or (pytest_command(*where, *options),)
    if name == "bench":
        commands = ((*commands[0], *options),)
    if layer.beside and not options:  # what somebody has options for is seldom a whole layer
        others = (f"--ignore={place}" for place in layer.beside)
        commands = (pytest_command(*where, *others), pytest_command(*layer.beside))
        print("$", " & ".join(map(shown, commands)), flush=True)
        done = side_by_side(*commands, environ)
    else:
        done = []
        for command in commands:
            print("$", shown(command), flush=True)
            done.append(stream(command, environ))
    failed = [shown(command) for command, (status, _) in zip(commands, done, strict=True) if status]
    closing = "; ".join(last for _, last in done)
    if layer.commands:
        closing = f"failed: {'; '.join(failed)}" if failed else f"{len(commands)} commands"
    return Result("failed" if failed else "passed", time.monotonic() - began, closing)


def main(arguments: list[str]) -> int:
    if {"-h", "--help"} & set(arguments):
        print(usage())
        return 0
    names, options = choose(arguments)
    run = Run()
    with ExitStack() as stack:
        engine = Engine(stack) if any(LAYERS[name].engine for name in names) else None
        for name in names:
            say(f"{name}: {LAYERS[name].about}")
            line = prepare(LAYERS[name], engine)
            if line is not None:
                run.left_out[name] = line
                print(f"Without its tools, {name} leaves tests out. To have them: {line}", flush=True)
            run.results[name] = run_layer(name, options)
    return report(run)


def report(run: Run) -> int:
    say("result")
    for name, result in run.results.items():
        print(f"{name:12} {result.outcome:7} {result.seconds:6.1f} s  {result.closing}")
    for name, line in run.left_out.items():
        print(f"left out in {name}; this would install it: {line}")
    failed = any(result.outcome == "failed" for result in run.results.values())
    required = os.environ.get("REQUIRE_ALL") == "1"
    return 1 if failed or (required and run.left_out) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
