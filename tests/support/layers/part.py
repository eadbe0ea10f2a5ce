"""One part of a layer: commands in a row, their output in a file, and what they counted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.commands import ROOT
from support.ports import HIGHEST, LOWEST

OUTPUT = ROOT / ".test-output"
BIN = Path(sys.executable).parent
_COUNTS = re.compile(r"(\d+) (passed|failed|skipped|errors?|xfailed|xpassed|deselected)\b")
_PRINTING = threading.Lock()
_RUNNING: set[subprocess.Popen[str]] = set()


@dataclass(frozen=True)
class Part:
    """Commands that must all succeed."""

    layer: str
    commands: tuple[tuple[str, ...], ...]
    number: int = 0  # of several; 0: the whole layer

    @property
    def name(self) -> str:
        return f"{self.layer}-{self.number}" if self.number else self.layer


@dataclass
class Result:
    """How a part ended."""

    part: Part
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0
    processor_seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def row(self) -> str:
        outcome = "failed" if self.failed else "passed"
        counted = ", ".join(f"{count} {word}" for word, count in self.counts.items())
        times = f"{self.seconds:6.1f} s {self.processor_seconds:6.1f} s of processor"
        return f"{self.part.name:15} {outcome}  {times}  {counted}"


def run(part: Part, environ: Mapping[str, str], output: Path = OUTPUT, *, live: bool) -> Result:
    """Runs the commands; output is shown as it comes (`live`), or as a whole where one has failed."""
    result = Result(part)
    began = time.monotonic()
    path = output / f"{part.name}.txt"
    output.mkdir(parents=True, exist_ok=True)
    say(f"{part.name} begins", *(f"$ {shown(command)}" for command in part.commands))
    with path.open("w", encoding="utf-8") as kept:
        for command in part.commands:
            status, last, used = _run(command, environ, kept.fileno(), live=live)
            result.processor_seconds += used
            result.counts += counts(last) if "pytest" in command else Counter({"failed" if status else "passed": 1})
            if status:
                result.failed.append(shown(command))
    result.seconds = time.monotonic() - began
    lines = [] if live or not result.failed else [path.read_text(encoding="utf-8", errors="replace")]
    say(result.row, *lines)
    return result


def _run(command: Sequence[str], environ: Mapping[str, str], output: int, *, live: bool) -> tuple[int, str, float]:
    """The command's status, its last line, and the processor time of it and of all its children."""
    last = ""
    with subprocess.Popen(
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout
        _RUNNING.add(process)
        for line in process.stdout:
            os.write(output, line.encode())
            if live:
                sys.stdout.write(line)
                sys.stdout.flush()
            last = line.strip() or last
        _, status, usage = os.wait4(process.pid, 0)  # wait() would not tell the processor time
        process.returncode = os.waitstatus_to_exitcode(status)
        _RUNNING.discard(process)
    return process.returncode, last, usage.ru_utime + usage.ru_stime


def end_all() -> None:
    """Asks the commands that run to end."""
    for process in list(_RUNNING):
        process.terminate()


def counts(closing: str) -> Counter[str]:
    """What a pytest says in its last line."""
    return Counter({word: int(number) for number, word in _COUNTS.findall(closing)})


def total(results: Iterable[Result]) -> str:
    """The closing line of a run."""
    found = sum((result.counts for result in results), Counter(passed=0, failed=0))
    words = dict.fromkeys(("passed", "failed", *found))
    return ", ".join(f"{found[word]} {word}" for word in words)


def shown(command: Sequence[str]) -> str:
    """As one would type it."""
    return " ".join(command).replace(f"{BIN}/", "").replace(str(ROOT), ".")


def ports(slot: int, slots: int) -> str:
    """The ports of a slot: what runs side by side chooses them where the others do not."""
    each = (HIGHEST - LOWEST) // slots
    return f"{LOWEST + slot * each}-{LOWEST + (slot + 1) * each}"


def say(head: str, *lines: str) -> None:
    """A heading and its lines in one piece."""
    with _PRINTING:
        print(f"\033[1m== {head}\033[0m" if sys.stdout.isatty() else f"== {head}", *lines, sep="\n", flush=True)
