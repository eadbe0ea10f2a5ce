"""`tailrace table run`: what it refuses before it connects."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from tailrace.cli.daily import app
from tailrace.tables import extra


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["table", "run", "--bootstrap", "127.0.0.1:1", *arguments])
    return done.exit_code, done.output


def test_a_missing_extra_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extra, "find_spec", lambda name: None)
    told = 'tables need pyarrow, deltalake and fastavro: pip install "tailrace[tables]"\n'
    assert run("--target", "/srv/tables") == (1, told)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "Missing option '--target'"),
        (("--target", "gs://bucket"), "gs://: expected a folder or s3://BUCKET/PREFIX"),
        (("--target", "s3://key:secret@bucket"), "a key in the URL can be read by others"),
        (("--target", "/srv", "--metrics", "nowhere"), "nowhere"),
        (("--target", "/srv", "--topic", ""), "it is empty"),
        (("--target", "/srv", "--schema-registry", "http://me:secret@r"), "a password in the URL can be read by"),
    ],
)
def test_wrong_options_are_usage_errors(arguments: tuple[str, ...], reason: str) -> None:
    code, output = run(*arguments)
    assert code == 2
    assert reason in output
    assert "secret" not in output
