"""The runtime's parts that need no process: health pages, run files, logs, settings."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter

from tailrace.clock import ManualClock
from tailrace.config import loggers
from tailrace.config.config import Config
from tailrace.runtime import http, logs, run_files
from tailrace.runtime.clock import SystemClock
from tailrace.runtime.http import Pages, respond
from tailrace.runtime.process import load_config, main, setting
from tailrace.runtime.role import Environment, Opened, Role
from tailrace.runtime.run_files import RunFile


def pages(*, ready: bool = True, healthy: bool = True) -> Pages:
    registry = CollectorRegistry()
    Counter("tailrace_requests", "Requests.", registry=registry).inc(3)
    return Pages(registry, lambda: ready, lambda: {"opened": True, "disk": healthy})


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET /healthz HTTP/1.1", 200),
        ("GET /readyz?verbose HTTP/1.1", 200),
        ("GET /metrics HTTP/1.0", 200),
        ("HEAD /metrics HTTP/1.1", 200),
        ("GET / HTTP/1.1", 404),
        ("POST /healthz HTTP/1.1", 405),
        ("GET /healthz", 400),
        ("\x16\x03\x01", 400),
    ],
)
def test_pages_answer_with_the_status_a_prober_expects(request_line: str, status: int) -> None:
    answer = respond(pages(), f"{request_line}\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    head, _, body = answer.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length"))
    assert len(body) == (0 if request_line.startswith("HEAD") else length)


async def test_what_metrics_need_is_prepared_before_they_are_shown_and_for_nothing_else() -> None:
    prepared = []

    async def prepare() -> None:
        prepared.append(1)

    shown = Pages(CollectorRegistry(), lambda: True, dict, prepare)
    for path, count in (("/healthz", 0), ("/metrics", 1), ("/metrics?name=x", 2)):
        await shown.prepare(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        assert len(prepared) == count


def test_readiness_and_health_fail_with_what_is_wrong() -> None:
    assert respond(pages(ready=False), b"GET /readyz HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 503")
    unhealthy = respond(pages(healthy=False), b"GET /healthz HTTP/1.1\r\n\r\n")
    assert unhealthy.startswith(b"HTTP/1.1 503")
    assert json.loads(unhealthy.partition(b"\r\n\r\n")[2]) == {"opened": True, "disk": False}


def test_metrics_are_in_prometheus_text_format() -> None:
    assert b"tailrace_requests_total 3.0" in respond(pages(), b"GET /metrics HTTP/1.1\r\n\r\n")


@contextlib.asynccontextmanager
async def prober(server: asyncio.Server) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """A connection that is reset has said nothing more."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


async def ask(server: asyncio.Server, data: bytes) -> bytes:
    async with prober(server) as (reader, writer):
        writer.write(data)
        return await rest_of(reader)


async def test_the_health_port_survives_garbage_and_endless_requests() -> None:
    server = await http.serve_pages(pages(), "127.0.0.1", 0, SystemClock())
    async with server:
        assert (await ask(server, b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert await ask(server, b"x" * 20_000 + b"\r\n\r\n") == b""
        assert (await ask(server, b"GET /healthz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200")


async def test_silent_connections_do_not_keep_a_prober_out() -> None:
    server = await http.serve_pages(pages(), "127.0.0.1", 0, ManualClock())
    async with server, contextlib.AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(prober(server)) for _ in range(3 * http.CONNECTIONS_MAX)]
        assert (await ask(server, b"GET /healthz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert await rest_of(silent[0][0]) == b""


async def test_a_prober_that_never_finishes_its_request_is_cut_off() -> None:
    clock = ManualClock()
    server = await http.serve_pages(pages(), "127.0.0.1", 0, clock)
    async with server, prober(server) as (reader, writer):
        writer.write(b"GET ")
        assert (await ask(server, b"GET /healthz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200")
        clock.advance(6_000)
        assert await rest_of(reader) == b""


def test_run_files_tell_a_running_process_from_one_that_took_its_pid(tmp_path: Path) -> None:
    pid = os.getpid()
    running = RunFile("broker", 0, pid, run_files.start_ticks(pid), 1, addresses={"internal": "unix:/x"})
    running.write(tmp_path)
    assert (tmp_path / "broker-0.pid").read_text() == f"{pid}\n"
    read = RunFile.read(tmp_path / "broker-0.json")
    assert read == running
    assert read.is_running()
    assert not RunFile("broker", 0, pid, running.start_ticks - 1, 1).is_running()
    running.remove(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"role": "broker"}'])
def test_a_run_file_that_is_not_ours_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "broker-0.json").write_text(text)
    assert RunFile.read(tmp_path / "broker-0.json") is None


@pytest.mark.parametrize("log_format", ["logfmt", "json", "human"])
def test_a_line_quotes_no_more_than_the_beginning_of_what_a_client_sent(
    capsys: pytest.CaptureFixture[str], log_format: logs.Format
) -> None:
    logs.configure(log_format, "info")
    try:
        logs.logger("broker", 0, named=True).info("e" * 32_000, name="n" * 32_000, why=ValueError("v" * 32_000), n=7)
    finally:
        logging.getLogger().handlers.clear()
    (line,) = capsys.readouterr().err.splitlines()
    assert len(line) < 4_000
    assert line.count("… (32000 characters)") + line.count("\\u2026 (32000 characters)") == 3


HOSTILE = "\x1b[2J\r\x9b31m\u202e\u2028\x07 level=error"


@pytest.mark.parametrize("log_format", ["logfmt", "json", "human"])
def test_a_clients_text_moves_no_cursor_and_begins_no_line(
    capsys: pytest.CaptureFixture[str], log_format: logs.Format
) -> None:
    logs.configure(log_format, "info")
    log = logs.logger("broker", 0, named=True)
    try:
        log.info(HOSTILE, name=f"{HOSTILE}\nlevel=error", why=ValueError(HOSTILE))
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            log.exception("it failed")
    finally:
        logging.getLogger().handlers.clear()
    written = capsys.readouterr().err
    assert written.replace("\n", "").isprintable()
    first, *traceback = written.splitlines()
    assert first.count("u202e") == 3
    assert "u202e" in "".join(traceback)
    assert len(traceback) == 1 or log_format == "human"


def test_a_level_holds_for_a_logger_and_those_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("logfmt", "info")
    log = logs.logger("broker", 0, named=True)
    try:
        assert logs.log_levels()["tailrace.broker"] == "INFO"
        log.debug("first")
        logs.set_log_level("tailrace", "DEBUG")
        log.debug("second")
        logs.set_log_level("tailrace.broker", "FATAL")
        log.error("third")
        log.exception("fourth")
        logs.set_log_level("tailrace.broker", None)
        assert logs.log_levels()["tailrace.broker"] == "DEBUG"
        log.debug("fifth")
    finally:
        logs.set_log_level("tailrace", "INFO")
        logging.getLogger().handlers.clear()
    lines = capsys.readouterr().err.splitlines()
    assert [line.rpartition("event=")[2].split()[0] for line in lines] == ["second", "fifth"]


@pytest.mark.parametrize("level", loggers.LEVELS)
def test_a_level_reads_as_it_was_set(level: str) -> None:
    logs.logger("level", 0, named=False)
    logs.set_log_level("tailrace.level", level)
    assert logs.log_levels()["tailrace.level"] == level
    logs.set_log_level("tailrace.level", None)


@pytest.mark.parametrize("log_format", logs.FORMATS)
def test_a_log_line_holds_event_and_fields_in_every_format(
    log_format: logs.Format, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(log_format)
    logs.logger("broker", 0, named=True).info("opened", topic="a b")
    logging.getLogger("asyncio").warning("from the standard library")
    logging.getLogger().handlers.clear()
    error = capsys.readouterr().err
    assert "opened" in error
    assert "a b" in error
    assert "from the standard library" in error
    assert ("\x1b[" in error) is (log_format == "colour")
    if log_format == "json":
        assert json.loads(error.splitlines()[0])["role"] == "broker"


def test_people_see_colours_on_a_terminal_unless_they_said_no() -> None:
    assert logs.format_for(True, no_colour=False) == "colour"
    assert logs.format_for(True, no_colour=True) == "human"
    assert logs.format_for(False, no_colour=False) == "logfmt"


def test_flags_win_over_the_file_and_ids_count_from_0(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("min.insync.replicas=2\nnum.partitions=7\n")
    config = load_config("broker", str(file), ["min.insync.replicas=1"])
    assert (config.min_insync_replicas, config.num_partitions, config.node_id) == (1, 7, 0)


@pytest.mark.parametrize("settings", [["nonsense"], ["num.partitions=many"], ["num.partition=1"]])
def test_a_wrong_setting_ends_with_one_sentence(settings: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        load_config("broker", None, settings)
    assert left.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("name", "why"), [("nowhere", "No such file or directory"), ("", "Is a directory")])
def test_a_file_that_cannot_be_read_is_named(
    name: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        load_config("quota", str(tmp_path / name), [])
    assert left.value.code == 2
    assert capsys.readouterr().err == f"tailrace: --config {tmp_path / name} cannot be read: {why}\n"


def test_a_setting_may_contain_equals_signs() -> None:
    assert setting("sasl.jaas.config=a=b") == ("sasl.jaas.config", "a=b")


def test_structlog_is_imported_without_rich() -> None:
    code = "import sys; from tailrace.runtime import logs; logs.import_structlog(); sys.exit('rich' in sys.modules)"
    assert os.spawnl(os.P_WAIT, sys.executable, sys.executable, "-c", code) == 0


def _unopened(config: Config, environment: Environment) -> contextlib.AbstractAsyncContextManager[Opened]:
    raise AssertionError("help opens nothing")


def test_the_help_of_a_role_names_its_other_commands(capsys: pytest.CaptureFixture[str]) -> None:
    umask = os.umask(0o077)
    try:
        with pytest.raises(SystemExit):
            main(Role("sample", _unopened, {"mend": lambda words: 0}), ["--help"])
    finally:
        os.umask(umask)  # a role makes it private
    assert "Other commands, each with --help: mend." in capsys.readouterr().out


def test_a_role_that_is_told_to_stop_while_it_imports_ends_with_0(tmp_path: Path) -> None:
    """In the middle of an import an exception from a signal's handler may become another one: here in __set_name__."""
    program = f"""
import asyncio, contextlib, importlib.abc, os, signal, sys
from tailrace.runtime.process import main
from tailrace.runtime.role import Role

class Told:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), signal.SIGTERM)

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "uvloop":
            type("Imported", (), {{"told": Told()}})

@contextlib.asynccontextmanager
async def opens_never(config, environment):
    yield await asyncio.Event().wait()

sys.modules.pop("uvloop", None)
sys.meta_path.insert(0, Finder())
main(Role("controller", opens_never), ["--set", "data.dir={tmp_path}", "--set", "health.port=0"])
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert not list((tmp_path / "run").iterdir())
