"""How the commands on files end when nobody can read what they say, and at Ctrl-C: a true sentence, no traceback."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest
from typer.testing import CliRunner, Result

from support.kafka_directory import kafka_directory
from tailrace.cli.command import INTERRUPTED
from tailrace.cli.daily import app
from tailrace.cli.files import importing, verify

FULL = Path("/dev/full")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def ctrl_c(*_: object, **__: object) -> NoReturn:
    raise KeyboardInterrupt


@pytest.fixture
def kafka(tmp_path: Path) -> Path:
    return kafka_directory(tmp_path / "kafka", 7, (7,))


@pytest.fixture(params=["", "1"], ids=["buffered", "unbuffered"])
def environ(request: pytest.FixtureRequest) -> dict[str, str]:
    """When Python writes what was printed: as it ends, or at once."""
    return {**os.environ, "PYTHONUNBUFFERED": request.param}


def said_to_a_full_disk(environ: dict[str, str], *arguments: object) -> list[str]:
    with FULL.open("w") as full:
        command = [sys.executable, "-m", "tailrace.cli", *map(str, arguments)]
        done = subprocess.run(command, env=environ, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    return done.stderr.splitlines()


@pytest.mark.skipif(not FULL.exists(), reason="/dev/full is Linux's")
def test_an_output_that_cannot_be_written_is_not_taken_for_a_failed_import(
    kafka: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    (said,) = said_to_a_full_disk(environ, "import-kafka", kafka, "--data", tmp_path / "target")
    assert "could not be written" in said and (tmp_path / "target" / "broker-0").is_dir()


@pytest.mark.skipif(not FULL.exists(), reason="/dev/full is Linux's")
def test_an_output_that_cannot_be_written_is_not_taken_for_a_file_that_cannot_be_read(
    kafka: Path, environ: dict[str, str]
) -> None:
    (said,) = said_to_a_full_disk(environ, "dump-log", kafka / "meta.properties")
    assert "could not be written" in said and "meta.properties" not in said


def test_an_output_that_is_closed_ends_a_command_without_a_word(kafka: Path, environ: dict[str, str]) -> None:
    ours, its = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "tailrace.cli", "dump-log", str(kafka / "meta.properties")]
    done = subprocess.run(command, env=environ, stdout=its, stderr=subprocess.PIPE, text=True, check=False)
    os.close(its)
    assert (done.returncode, done.stderr) == (1, "")


def test_ctrl_c_leaves_nothing_of_an_import_and_the_same_command_does_it_after_all(
    kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("import-kafka", kafka, "--data", tmp_path / "target", "--how", "copy")
    with monkeypatch.context() as patched:
        patched.setattr(importing, "take", ctrl_c)
        done = run(*arguments)
    assert done.exit_code == INTERRUPTED and len(done.output.splitlines()) == 1
    assert done.output.startswith("Interrupted.") and "the same command again" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["kafka"]
    assert run(*arguments).exit_code == 0


def test_ctrl_c_ends_a_verification_with_a_sentence(kafka: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "verify", ctrl_c)
    done = run("verify-log", kafka)
    assert (done.exit_code, done.output) == (INTERRUPTED, "Interrupted: not all of it was read.\n")


def on_a_terminal(*arguments: object, term: str = "xterm") -> str:
    """Everything that a command writes to its terminal."""
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "tailrace.cli", *map(str, arguments)]
    with subprocess.Popen(command, stdout=its, stderr=its, env={**os.environ, "TERM": term, "COLUMNS": "80"}):
        os.close(its)
        written = b""
        with suppress(OSError):  # EIO: it has ended
            while piece := os.read(ours, 4096):
                written += piece
    os.close(ours)
    return written.decode()


def test_a_finding_has_a_line_of_its_own_beside_the_bar(kafka: Path) -> None:
    (kafka / "orders-0" / "leader-epoch-checkpoint").write_bytes(b"?")
    written = on_a_terminal("verify-log", kafka)
    assert "Reading " in written and "/s" in written
    found = [line for line in re.split(r"[\r\n]+", written) if "; stop the broker" in line]
    assert len(found) == 2 and not any("Reading" in line for line in found)


def test_a_dumb_terminal_gets_lines_alone(kafka: Path) -> None:
    written = on_a_terminal("verify-log", kafka / "orders-0", term="dumb")
    assert re.fullmatch(r"\d+ bytes of segments read: nothing is wrong\.\r\n", written)
