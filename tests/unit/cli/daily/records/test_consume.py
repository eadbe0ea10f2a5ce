"""How `tailrace consume` prints: bytes as they are into a pipe, escapes on a terminal."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from support.ports import free_ports
from tailrace.cli.daily import app
from tailrace.cli.daily.records.consume import for_terminal, line_of


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"2 apples\n", b"2 apples\n"),
        ("größe\t注文\n".encode(), "größe\t注文\n".encode()),
        (b"\x1b[2J\xff\x9b\r\n", b"\\x1b[2J\\xff\\x9b\\r\n"),
        (b"a\nb\n", b"a\nb\n"),
        (b"no line", b"no line"),
        (b"\\t", b"\\t"),
    ],
)
def test_a_record_cannot_tell_the_terminal_what_to_do(text: bytes, shown: bytes) -> None:
    assert for_terminal(text) == shown


def test_null_is_not_empty() -> None:
    assert line_of(None, b"", with_key=True) == b"null\t\n"


@pytest.mark.parametrize(
    "words",
    [
        ["-o", "earliest", "-o", "latest"],
        ["--from-beginning", "-o", "5"],
        ["-o", "e@1", "-o", "e@2"],
        ["-f", "%s", "--json"],
        ["--key", "--json"],
        ["-g", "readers", "-o", "5"],
        ["-g", "readers", "-p", "0"],
        ["-g", "readers", "--exit"],
    ],
)
def test_what_makes_no_sense_together_is_a_usage_error(words: list[str]) -> None:
    done = CliRunner().invoke(app, ["consume", "orders", "-b", f"127.0.0.1:{free_ports(1)}", *words])
    assert done.exit_code == 2, done.output
