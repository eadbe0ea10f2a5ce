"""What a cold reader costs: runs beside it are set against their neighbours alone, and judged by the median's range."""

import pytest

from bench.cold import NOBODY, Figures, Row, table


def run(p99: float, arrival: float | None = None) -> Figures:
    return Figures(400, 100, p99, 200, p99 if arrival is None else arrival)


def row(*ratios: float, arrival: float = 1.0) -> Row:
    made = Row()
    for ratio in ratios:
        made.add(run(1000), run(1000 * ratio, 1000 * arrival), run(1000))
    return made


def test_a_run_is_set_against_the_mean_of_its_neighbours() -> None:
    made = Row()
    made.add(run(500, 1000), run(1500, 3000), run(1500, 2000))
    assert (made.acks, made.arrivals) == ([1.5], [2.0])


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (row(*[1.4] * 7), "**kept**"),
        (row(*[1.6] * 7), "missed"),
        (row(*[1.4] * 7, arrival=1.6), "missed"),
        (row(1.2, 1.3, 1.3, 1.4, 1.4, 1.4, 1.6), "open"),
        (row(*[1.4] * 5), "open"),
    ],
)
def test_the_range_of_the_median_says_whether_the_aim_is_kept(measured: Row, said: str) -> None:
    assert table("Tailrace", {"a reader": measured}).splitlines()[-1].endswith(f"| {said} |")


def test_the_run_alone_has_no_aim() -> None:
    header, rule, line = table("Tailrace", {NOBODY: row(*[1.0] * 7)}).splitlines()
    assert line == "| nobody | 400 | 100 | 1,000 | 1.00 | 1.00-1.00 | 200 | 1,000 | 1.00 | 1.00-1.00 | - |"
    assert header.count("|") == rule.count("|") == line.count("|")
