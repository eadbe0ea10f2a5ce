"""What deploy/ has for systemd and for Compose: systemd's own tools read it, and what runs is hardened and bounded."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.commands import ROOT
from support.plugin import leave_out
from support.waiting import HUNG_S

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
ROLES = ("broker", "controller", "coordinator", "gateway", "quota")
EXPOSED_AT_MOST = 20  # tenths: "OK" of systemd-analyze ends at 4.0


def run(*command: str | Path) -> str:
    """What a tool of systemd says; its status must be 0."""
    if shutil.which(str(command[0])) is None:
        leave_out("apt-get install systemd")
    done = subprocess.run(command, capture_output=True, text=True, timeout=HUNG_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def settings(unit: Path) -> list[str]:
    """The lines of [Service] that are the same for every service."""
    service = unit.read_text(encoding="utf-8").partition("[Service]\n")[2].partition("[Install]")[0]
    return [line for line in service.splitlines() if line and not line.startswith(("ExecStart=", "#"))]


def test_every_service_has_a_unit_and_all_run_alike() -> None:
    assert {unit.name for unit in UNITS} == {"tailrace.service", *(f"tailrace-{role}@.service" for role in ROLES)}
    (alike,) = {tuple(settings(unit)) for unit in UNITS}
    assert {
        "MemoryMax=80%",
        "User=tailrace",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "CapabilityBoundingSet=",
    } <= set(alike)


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    for unit in UNITS:
        name = unit.name.replace("@.", "@0.")
        (tmp_path / name).write_text(unit.read_text().replace("/opt/tailrace/bin/tailrace", sys.executable))
    said = run("systemd-analyze", "verify", "--man=no", *sorted(tmp_path.iterdir()))
    assert "tailrace" not in said  # it warns of what it does not know, and ends with 0


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_finds_little_exposed(unit: Path) -> None:
    run("systemd-analyze", "security", "--no-pager", "--offline=yes", f"--threshold={EXPOSED_AT_MOST}", unit)


def test_systemd_makes_the_user(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    run("systemd-sysusers", f"--root={tmp_path}", ROOT / "deploy" / "sysusers.d" / "tailrace.conf")
    (line,) = (line for line in (tmp_path / "etc/passwd").read_text().splitlines() if line.startswith("tailrace:"))
    assert line.split(":")[5:] == ["/var/lib/tailrace", "/usr/sbin/nologin"]


COMPOSE = sorted((ROOT / "deploy" / "compose").glob("*.yml"))
OVERLAY = ROOT / "deploy" / "compose" / "overlays" / "secure.yml"


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.name)
def test_a_compose_file_pins_images_bounds_memory_and_has_no_password_of_its_own(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name, service in yaml.safe_load(text)["services"].items():
        assert re.fullmatch(r"\$\{\w+_IMAGE:-[\w:]+\}\$\{\w+_DIGEST:-\}", service["image"]), name
        assert "mem_limit" in service or name == "secret", name
    passwords = re.findall(r"\$\{\w*PASSWORD[^}]*\}", text)
    assert all(":?" in one for one in passwords) and bool(passwords) is (path.name == "cluster.yml")


def test_compose_reads_the_overlay_with_logins() -> None:
    """What a gateway has then: both files' variables, and the certificate beside its own volumes."""
    if shutil.which("docker-compose") is None:
        leave_out("apt-get install docker-compose")
    files = ("-f", str(OVERLAY.parents[1] / "cluster.yml"), "-f", str(OVERLAY))
    environment = {**os.environ, "POSTGRES_PASSWORD": "p", "REDIS_PASSWORD": "r"}
    command = ["docker-compose", *files, "config"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HUNG_S, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    services = yaml.safe_load(done.stdout)["services"]
    gateway = services["gateway-0"]
    assert gateway["environment"]["TAILRACE_GATEWAY_SECURITY_PROTOCOL"] == "SASL_SSL"
    assert gateway["environment"]["TAILRACE_ALLOW_INSECURE_LISTENERS"] == "false"
    assert gateway["environment"]["TAILRACE_GATEWAY_PORT"] == 9092
    assert len(gateway["volumes"]) == 3 and {"secret", "certificates"} <= gateway["depends_on"].keys()
    assert services["certificates"]["network_mode"] == "none" and "mem_limit" in services["certificates"]
