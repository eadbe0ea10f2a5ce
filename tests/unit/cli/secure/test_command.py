"""`tailrace cert`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tailrace.cli import secure
from tailrace.cli.daily import app


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["cert", *arguments])


def listed(data: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(run("list", "--data", str(data), "--json").output)
    return found


def test_certificates_are_created_once_listed_and_renewed(tmp_path: Path) -> None:
    assert "was created" in run("create", "--data", str(tmp_path), "--name", "kafka.example.org").output
    authority, server = listed(tmp_path)
    names = server["names"]
    assert isinstance(names, list) and {"kafka.example.org", "localhost"} <= set(names)
    assert "is there, and not due" in run("create", "--data", str(tmp_path)).output
    assert listed(tmp_path) == [authority, server]
    assert "was renewed" in run("renew", "--data", str(tmp_path)).output
    again, renewed = listed(tmp_path)
    assert again == authority and renewed["fingerprint"] != server["fingerprint"] and renewed["names"] == names
    assert "valid" in run("list", "--data", str(tmp_path)).output


def test_what_cannot_be_done_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("list", "--data", str(tmp_path))
    assert done.exit_code == 1 and done.output.count("\n") == 1 and "cannot be read" in done.output
    assert run("create", "--data", str(tmp_path), "--name", "a b").exit_code == 2
    (tmp_path / "file").write_text("")
    assert "Not a directory" in run("create", "--data", str(tmp_path / "file")).output

    def missing(name: str) -> None:
        return None

    monkeypatch.setattr(secure, "find_spec", missing)
    assert "pip install cryptography" in run("create", "--data", str(tmp_path)).output
