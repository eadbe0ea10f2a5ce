"""A section that a benchmark writes."""

from pathlib import Path

import pytest

from bench.section import Section


@pytest.mark.parametrize(("remark", "behind"), [("", "`."), ("Twice.", "`. Twice.")])
def test_a_section_says_how_to_measure_again(tmp_path: Path, remark: str, behind: str) -> None:
    page = tmp_path / "page.md"
    section = Section("speed", "bench.speed", page, kafka=False)
    options = section.parser("Measures speed.").parse_args([])
    section.write(["| a |", "|--:|"], ["--turns", "3"], options.output, remark)
    lines = page.read_text().splitlines()
    assert lines[0] == "<!-- speed -->" and lines[-3:] == ["| a |", "|--:|", "<!-- /speed -->"]
    assert f"Command: `PYTHONPATH=tests python -m bench.speed --turns 3{behind}" in lines
    assert not any("Kafka" in line for line in lines)
