"""What a layer needs before its tests run: Debian packages, jars, an extra of pyproject.toml, a Docker engine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from support import debian
from support.commands import ROOT, running
from support.layers.table import Layer

# A tool and the Debian package that has it.
PACKAGES = {
    "gcc": "build-essential",  # compiles what is preloaded into a service: a slow disk, a failing one, another clock
    "chromium": "chromium",
    "kcat": "kcat",
    "java": "openjdk-17-jre-headless",
    "javac": "openjdk-17-jdk-headless",  # java compiles ToolServer.java as it starts it
    "mvn": "maven",
    "postgres": "postgresql",
    "redis-server": "redis-server",
}


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
    print(f"Installing Tailrace's extra {extra}: the first time a minute or two", flush=True)
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
        # First, so that it runs last: an `up` that has not ended may start a dockerd yet.
        stack.callback(subprocess.run, _engine("down", run), cwd=ROOT, check=False)
        self._process, self._output = stack.enter_context(running(("nice", *_engine("up", run)), os.environ))

    def wait(self) -> str | None:
        """Returns when it is ready; what would help where it cannot be had."""
        print("Docker's engine and images are waited for: minutes the first time", flush=True)
        if (status := self._process.wait()) == 0:
            return None
        self._output.seek(0)
        *_, last = ["", *self._output.read().strip().splitlines()]
        return last or f"python -m support.docker_engine up, which ended with {status} and without a word"


def _engine(word: str, run: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "support.docker_engine", word, run)


class Preparation:
    """Gives each layer its tools once, before its first part; one layer at a time, because they share folders."""

    def __init__(self, engine: Engine | None) -> None:
        self._engine = engine
        self._locks = {"engine": threading.Lock(), "tools": threading.Lock()}
        self.left_out: dict[str, str | None] = {}  # by layer: the line that would help, or None where all is there

    def of(self, name: str, layer: Layer) -> None:
        """Returns when the layer has what it needs, or cannot have it."""
        with self._locks["engine" if layer.engine else "tools"]:
            if name in self.left_out:
                return
            line = self._engine.wait() if layer.engine and self._engine else install(layer.tools)
            if line is None and layer.extra:
                line = install_extra(layer.extra)
            if line is None and layer.jars:
                line = fetch(layer.jars)
            if line is not None:
                print(f"Without its tools, {name} leaves tests out. To have them: {line}", flush=True)
            self.left_out[name] = line
