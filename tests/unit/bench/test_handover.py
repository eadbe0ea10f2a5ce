"""Handed over against direct: what a triple's ratio cancels, and how sure a median is."""

import random

import pytest

from bench.cells import Cell
from bench.handover import line, verdict
from bench.pairs import Ratios, median_range

CELL = Cell("produce 1 KiB", "produce", 1024)
AT_A_RATE = Cell("produce 1 KiB at 2,000/s", "produce", 1024, {"rate": 2000})


def run(rate: float, cpu: float = 10.0) -> dict[str, float]:
    return {"requests_per_second": rate, "server_cpu_us": cpu}


def of(cell: Cell, rate: float, cpu: float, noise: float = 0.0) -> Ratios:
    row, chance = Ratios(cell, "handover"), random.Random(5)
    for _ in range(21):
        factors = [1 + noise * chance.uniform(-1, 1) for _ in range(3)]
        row.add(run(100 * factors[0]), run(100 * rate * factors[1], 10 * cpu), run(100 * factors[2]))
    return row


def test_a_slow_drift_of_the_machine_cancels_out_and_the_control_shows_it() -> None:
    row = Ratios(CELL, "handover")
    row.add(run(100), run(90), run(80))
    assert row.measured["requests_per_second"] == [1.0]
    assert row.control["requests_per_second"] == [0.8]


def test_the_range_of_the_median_is_that_of_the_order_statistics() -> None:
    assert median_range(list(range(1, 22))) == (6, 16)  # the 6th and the 16th of 21: 97.3 %, the 7th would be 92.2 %
    assert median_range([3, 1, 2]) == (1, 3)
    assert median_range([1.0]) == (1.0, 1.0)


@pytest.mark.parametrize("truth", [0.9, 1.1])
def test_a_true_difference_is_not_hidden_by_noise(truth: float) -> None:
    row = of(CELL, truth, 1.0, noise=0.1)
    low, high = median_range(row.measured["requests_per_second"])
    assert low <= truth <= high and not low <= 1 <= high


@pytest.mark.parametrize(
    ("rates", "cpu", "said"),
    [
        ((1.0, 1.0), 1.0, "**kept**"),
        ((0.9, 0.9), 1.0, "missed"),
        ((1.0, 1.0), 1.2, "missed"),
        ((0.9, 1.0), 1.0, "open"),  # the median is 0.9, and may as well be 1.0
        ((1.0, 0.9), 1.0, "open"),  # and the other way round
    ],
)
def test_an_aim_is_kept_or_missed_when_the_whole_range_says_so(
    rates: tuple[float, float], cpu: float, said: str
) -> None:
    row = Ratios(CELL, "handover")
    for number in range(21):
        row.add(run(100), run(100 * rates[number % 2], 10 * cpu), run(100))
    assert verdict(row) == said


def test_at_a_given_rate_only_the_cost_counts() -> None:
    row = of(AT_A_RATE, 0.5, 1.0)
    assert verdict(row) == "**kept**"
    assert line(row).startswith("| produce 1 KiB at 2,000/s | - | - | - | 1.000 |")


def test_a_cell_without_a_run_says_why() -> None:
    assert "failed: connection lost" in line(Ratios(CELL, "handover", failures=["connection lost"]))
