"""The five services started one by one, by the commands of deploy/systemd, in an order nobody would choose."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commands import ROOT
from support.ports import HOST, free_ports
from support.waiting import HUNG_S

ODD_ORDER = ("gateway", "coordinator", "broker", "quota", "controller")


def command_of_unit(role: str, config: Path) -> list[str]:
    """ExecStart= of the service's unit, with this Python, this config and JSON lines."""
    unit = (ROOT / "deploy" / "systemd" / f"tailrace-{role}@.service").read_text(encoding="utf-8")
    (line,) = (line for line in unit.splitlines() if line.startswith("ExecStart="))
    words = line.removeprefix("ExecStart=").replace("%i", "0").split()
    assert words[0] == "/opt/tailrace/bin/tailrace" and words[-2:] == ["--log-format", "logfmt"]
    words[words.index("--config") + 1] = str(config)
    return [sys.executable, "-m", "tailrace.cli", *words[1:-1], "json"]


@pytest.fixture
def services(tmp_path: Path) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """All five, ready; Ctrl-C ends them."""
    file = tmp_path / "server.properties"
    moved = {
        "/var/lib/tailrace": f"{tmp_path}/data",
        "/run/tailrace": f"{tmp_path}/data/run",
        "gateway.listen=127.0.0.1,::1": f"gateway.listen={HOST}",
        "gateway.port=9092": f"gateway.port={free_ports(2)}",
        "admin.port=8080": "admin.port=0",
    }
    text = (ROOT / "deploy" / "tailrace.properties").read_text(encoding="utf-8")
    for installed, here in moved.items():
        assert installed in text
        text = text.replace(installed, here)
    file.write_text(text)
    running = {
        role: subprocess.Popen(
            command_of_unit(role, file),
            stderr=subprocess.PIPE,
            text=True,
        )
        for role in ODD_ORDER
    }
    try:
        for process in running.values():
            assert process.stderr
            assert any(json.loads(line)["event"] == "ready" for line in process.stderr)
        yield running
    finally:
        for process in running.values():
            process.send_signal(signal.SIGINT)
        for process in running.values():
            process.communicate(timeout=HUNG_S)


def test_services_started_by_hand_find_each_other(services: dict[str, subprocess.Popen[str]], tmp_path: Path) -> None:
    run = tmp_path / "data" / "run"
    described = {role: json.loads((run / f"{role}-0.json").read_text()) for role in ODD_ORDER}
    assert {role: entry["pid"] for role, entry in described.items()} == {r: p.pid for r, p in services.items()}
    bootstrap = described["gateway"]["addresses"]["client"]
    command = [sys.executable, "-m", "tailrace.cli", "topic"]
    subprocess.run(
        [*command, "create", "by-hand", "-b", bootstrap], check=True, timeout=HUNG_S, stdout=subprocess.DEVNULL
    )
    listed = subprocess.run(
        [*command, "list", "-b", bootstrap], check=True, timeout=HUNG_S, capture_output=True, text=True
    )
    assert "by-hand" in listed.stdout


def test_a_service_that_is_told_to_stop_takes_its_run_files_along(
    services: dict[str, subprocess.Popen[str]], tmp_path: Path
) -> None:
    services["quota"].send_signal(signal.SIGTERM)
    assert services["quota"].wait(timeout=HUNG_S) == 0
    assert not (tmp_path / "data" / "run" / "quota-0.pid").exists()


def test_a_second_service_of_the_same_name_is_refused_in_one_sentence(
    services: dict[str, subprocess.Popen[str]], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tailrace_quota", "--config", str(tmp_path / "server.properties")]
    second = subprocess.run(command, capture_output=True, text=True, timeout=HUNG_S, check=False)
    assert second.returncode == 1
    assert second.stderr.count("\n") == 1
    assert f"pid {services['quota'].pid}" in second.stderr
    assert (tmp_path / "data" / "run" / "quota-0.pid").exists()


def test_the_port_of_a_gateway_started_by_hand_is_one_of_tailrace(
    services: dict[str, subprocess.Popen[str]], tmp_path: Path
) -> None:
    described = json.loads((tmp_path / "data" / "run" / "gateway-0.json").read_text())
    port = described["addresses"]["client"].rpartition(":")[2]
    command = [sys.executable, "-m", "tailrace.cli", "up", "--data", str(tmp_path / "other"), "--port", port]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=HUNG_S, check=False)
    assert refused.returncode == 1
    pid = services["gateway"].pid
    assert f"is taken by another Tailrace (pid {pid}:" in refused.stderr and f"`kill {pid}`" in refused.stderr


def test_a_role_names_the_settings_without_effect_in_one_line(tmp_path: Path) -> None:
    settings = (f"data.dir={tmp_path}", "num.io.threads=9", "num.network.threads=4")
    command = [sys.executable, "-m", "tailrace_quota", "--log-format", "json"]
    process = subprocess.Popen(
        [*command, *(word for setting in settings for word in ("--set", setting))],
        stderr=subprocess.PIPE,
        text=True,
        env={key: value for key, value in os.environ.items() if key != "KAFKA_LIBS"},  # the tests' own
    )
    assert process.stderr
    try:
        named = json.loads(process.stderr.readline())["event"]
    finally:
        process.terminate()  # whether or not its handlers are there yet
        rest = process.communicate(timeout=HUNG_S)[1]
    assert named == "Set, but without effect in Tailrace yet: num.io.threads, num.network.threads."
    assert "num.io.threads" not in rest
