"""The rows of a query, as they are printed."""

from __future__ import annotations

import pytest

from tailrace.cli.sql import command
from tailrace.cli.sql.command import plain, unique


def test_columns_of_one_name_are_numbered() -> None:
    assert unique(["key", "value", "value", "value_1", "value"]) == ["key", "value", "value_1", "value_1_1", "value_2"]


def test_what_is_no_number_of_json_is_null_there(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [float("nan"), float("inf"), 1.5]
    assert str(plain(values)) == "[nan, inf, 1.5]"
    monkeypatch.setattr(command, "is_json", lambda: True)
    assert plain(values) == [None, None, 1.5]
