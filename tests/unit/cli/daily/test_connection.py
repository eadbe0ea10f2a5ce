"""How the commands print: tables that stay readable whatever a client is called."""

import pytest

from tailrace.cli.daily.connection import table


def test_a_table_is_not_as_wide_as_the_longest_id_that_a_client_may_have(capsys: pytest.CaptureFixture[str]) -> None:
    table(("group", "state"), [("g" * 32_000, "Empty"), ("short", "Stable")])
    head, long, short = capsys.readouterr().out.splitlines()
    assert long == "g" * 255 + "…  Empty"
    assert head.split() == ["group", "state"] and short.split() == ["short", "Stable"]


def test_a_configs_value_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    table(("key", "value"), [("listeners", "v" * 32_000)], most_chars=None)
    assert "v" * 32_000 in capsys.readouterr().out
