"""The list of configs without effect in docs/compatibility.md is the table's, though a whole run writes that page."""

from __future__ import annotations

from pathlib import Path

from support.report import not_honoured

PAGE = Path(__file__).parents[3] / "docs" / "compatibility.md"


def test_the_configs_without_effect_are_those_of_the_table() -> None:
    assert "\n".join([*not_honoured(), ""]) in PAGE.read_text()
