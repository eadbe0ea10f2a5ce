"""`tailrace health`: what a container's health check says of the processes of a run directory."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tailrace.cli import command
from tailrace.runtime import health
from tailrace.runtime.run_files import RunFile, start_ticks


class Pages(BaseHTTPRequestHandler):
    """A role that is well and not ready."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 503)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def http() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"0.0.0.0:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def write(run_dir: Path, http: str | None, *, pid: int = os.getpid(), ticks: int | None = None) -> None:
    run_dir.mkdir(exist_ok=True)
    began = start_ticks(pid) if ticks is None else ticks
    RunFile("broker", 0, pid, began, 0, True, {"http": http} if http else {}).write(run_dir)


def run(*arguments: str) -> int:
    """As the command does it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["tailrace", "health", *arguments])
        with pytest.raises(SystemExit) as ended:
            command.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_process_that_answers_is_well_and_said_nothing_of(
    tmp_path: Path, http: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "run", http)
    assert run("--data", str(tmp_path)) == 0
    monkeypatch.setenv("TAILRACE_DATA_DIR", str(tmp_path))
    assert run() == 0
    monkeypatch.setenv("TAILRACE_RUN_DIR", "/nowhere")
    assert run() == 1
    assert capsys.readouterr().out == "/nowhere names no process\n"


def test_one_that_is_not_ready_is_named(tmp_path: Path, http: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, http)
    assert run("--ready", "--run", str(tmp_path)) == 1
    assert capsys.readouterr().out.startswith(f"broker-0 {http}/readyz: HTTP/1.0 503")


def test_what_does_not_answer_run_or_exist_is_named(tmp_path: Path, http: str) -> None:
    assert health.ailing(tmp_path, "/healthz") == [f"{tmp_path} names no process"]
    write(tmp_path, None)
    assert health.ailing(tmp_path, "/healthz") == ["broker-0 is not open"]
    write(tmp_path, http, ticks=1)
    assert health.ailing(tmp_path, "/healthz") == ["broker-0 does not run"]
    write(tmp_path, "127.0.0.1:1")
    (said,) = health.ailing(tmp_path, "/healthz")
    assert said.startswith("broker-0 127.0.0.1:1/healthz: ")


@pytest.mark.parametrize("arguments", [["--data"], ["all"], ["--ready", "--data", "a", "b"]])
def test_arguments_that_make_no_sense_show_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    assert capsys.readouterr().err == health.USAGE
