"""What docs/compatibility.md lists without asking a cluster is what the tables say, though a whole run writes it."""

from __future__ import annotations

from pathlib import Path

from support.report import differences, not_honoured

PAGE = Path(__file__).parents[3] / "docs" / "compatibility.md"


def test_the_configs_without_effect_are_those_of_the_table() -> None:
    assert "\n".join([*not_honoured(), ""]) in PAGE.read_text()


def test_the_known_differences_are_those_of_the_table() -> None:
    assert "\n".join([*differences(), ""]) in PAGE.read_text()
