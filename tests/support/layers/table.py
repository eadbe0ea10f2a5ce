"""The layers in the order in which they run: what computes is first, what waits for processes and clocks is last."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from support.layers import jars

BIN = Path(sys.executable).parent
SOURCES = ("libs", "services", "spark", "tests")
SEED = os.environ.get("TEST_SEED") or str(secrets.randbelow(2**32))  # of the tests' order and of Hypothesis
Command = tuple[str, ...]


@dataclass(frozen=True)
class Layer:
    """Tests of one folder, or commands; without `tests` and `commands` it is pytest on tests/<name>."""

    about: str
    tools: tuple[str, ...] = ()
    default: bool = True
    commands: tuple[tuple[Command, ...], ...] = ()  # parts, each of commands in a row
    extra: str = ""  # of pyproject.toml; installed when the layer runs, for what is too large to give everyone
    jars: Callable[[], Path] | None = None  # fetches them with Maven, or finds them in .cache
    tests: tuple[str, ...] = ()  # where they are not tests/<name>
    engine: bool = False  # needs a Docker engine, which is set up beside the layers that run first
    apart: tuple[tuple[str, ...], ...] = ()  # tests that are parts of their own; the rest is the first part


def tool(name: str, *arguments: str) -> Command:
    return (str(BIN / name), *arguments)


def module(name: str, *arguments: str) -> Command:
    return (sys.executable, "-m", name, *arguments)


def pytest_command(*arguments: str) -> Command:
    """On tests, with every skip explained and the seconds of every file noted."""
    colour = ["--color=yes"] if sys.stdout.isatty() else []
    seeds = (f"--randomly-seed={SEED}", f"--hypothesis-seed={SEED}")
    return module("pytest", "-q", "-p", "support.skips", "-p", "support.layers.slowest", *seeds, *arguments, *colour)


def tests_of(layer: str, names: str) -> tuple[str, ...]:
    """Some of a layer's files and folders."""
    found = (name.rstrip("/") if name.endswith("/") else f"test_{name}.py" for name in names.split())
    return tuple(f"tests/{layer}/{name}" for name in found)


STRUCTURE = ("tests/unit/test_architecture.py", "tests/unit/test_layout.py")

LAYERS = {
    "gate": Layer(
        "format, lint, types, import contracts, generated files, forbidden sleeps, abuse in its short form",
        commands=(
            (tool("mypy", *SOURCES),),
            (
                tool("ruff", "format", "--check", *SOURCES),
                tool("ruff", "check", *SOURCES),
                tool("lint-imports", "--no-logo"),
                module("tailrace.wire.stubs", "--check"),
                module("tailrace.config.generate", "--check"),
                pytest_command(*STRUCTURE),
                pytest_command("tests/abuse/test_at_once.py", "--scale", "0.02", "--requests", "40"),
            ),
        ),
    ),
    # Its parts are the longest: they begin early, or the other slots would have nothing left to do beside them.
    "spark": Layer(
        "the stock Spark connector and the jobs of spark/",
        tools=("java", "mvn"),
        extra="spark-tests",
        jars=jars.connector_jars,
        apart=(tests_of("spark", "logs/ demo suggestions"),),
    ),
    "unit": Layer(
        "pure files and tables; seconds",
        apart=tuple(tests_of("unit", names) for names in ("broker/", "gateway/ log/", "net/ controller/ cli/")),
    ),
    "protocol": Layer(
        "every API and version: round trips, arbitrary chunks, hostile frames",
        tools=("java", "mvn"),
        jars=jars.kafka_jars,
    ),
    "sim": Layer("real decisions in a seeded world of faults", apart=(tests_of("sim", "log/"),)),
    "abuse": Layer(
        "one client's largest and worst requests beside everybody else's; --scale 1 for full sizes, --seed, --requests"
    ),
    "compat": Layer(
        "real clients against Tailrace and Apache Kafka",
        tools=("kcat", "javac", "mvn"),
        jars=jars.compat_peers,
        apart=(tests_of("compat", "replication/ dump_log_figures dump_log_segments moving moving_groups"),),
    ),
    "containers": Layer(
        "the image, compose files and a cluster in containers, hurt under load; needs Docker",
        engine=True,
        apart=(tests_of("containers", "image container services two_versions"),),
    ),
    "fault": Layer(
        "kill -9, SIGSTOP, full disks; a checker reads back",
        tools=("postgres", "gcc"),
        apart=(
            tests_of(
                "fault",
                "bits_flip cleaner_dies cold_process_dies log_dirs_fail moving_is_cut_short power_fails processes_die",
            ),
        ),
    ),
    "integration": Layer(
        "real processes and sockets",
        tools=("chromium", "postgres", "redis-server"),
        extra="browser-tests",
        apart=(tests_of("integration", "controller/ gateway/ quota/ cli"),),
    ),
    "bench": Layer("speed beside Apache Kafka; reports only", default=False, commands=((module("bench"),),)),
}
