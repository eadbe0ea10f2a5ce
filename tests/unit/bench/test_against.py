"""Tailrace against Kafka: a rate has to reach its aim, a cost to stay below its own, each where one is set."""

import pytest

from bench.against import line
from bench.cells import CELLS, Cell
from bench.pairs import Ratios


def row(cell: Cell, target: str, rate: float, cpu: float, runs: int = 9) -> Ratios:
    made = Ratios(cell, target)
    kafka = {"requests_per_second": 100.0, "server_cpu_us": 10.0}
    for _ in range(runs):
        made.add(kafka, {"requests_per_second": 100 * rate, "server_cpu_us": 10 * cpu}, kafka)
    return made


@pytest.mark.parametrize(
    ("way", "rate", "cpu", "said"),
    [
        ("direct", 1.3, 0.5, ["1.2", "**kept**", "0.6", "**kept**"]),
        ("direct", 1.1, 0.7, ["1.2", "missed", "0.6", "missed"]),
        ("gateway", 1.15, 0.9, ["1.1", "**kept**", "-", "-"]),
        ("handover", 1.3, 0.5, ["-", "-", "-", "-"]),
    ],
)
def test_rate_and_cost_are_judged_by_their_own_aims(way: str, rate: float, cpu: float, said: list[str]) -> None:
    cell = next(cell for cell in CELLS if cell.name == "produce 128 KiB")
    cells = [part.strip() for part in line(row(cell, way, rate, cpu)).split("|")[1:-1]]
    assert cells[0] == f"produce 128 KiB, {way}"
    assert [cells[4], cells[5], cells[9], cells[10]] == said


def test_a_few_runs_settle_nothing() -> None:
    assert line(row(CELLS[2], "direct", 2, 0.1, runs=5)).count(" open ") == 2
    assert line(row(CELLS[2], "direct", 2, 0.1, runs=6)).count(" **kept** ") == 2


def test_a_row_without_a_run_says_why_and_has_all_its_cells() -> None:
    whole, failed = row(CELLS[2], "direct", 2, 1), Ratios(CELLS[2], "direct", failures=["connection lost"])
    assert "failed: connection lost" in line(failed)
    assert line(failed).count("|") == line(whole).count("|")


def test_every_aim_of_the_log_engine_has_its_cell() -> None:
    cells = {cell.name: cell for cell in CELLS}
    assert (cells["produce 16 KiB"].aim_cpu, cells["produce 128 KiB"].aim_cpu) == (0.45, 0.6)
    assert cells["fetch 900 KiB"].aim("handover") == 0.9
