"""The benchmark report: ratios, aims, failures, and what people wrote around it."""

from bench.cells import Cell
from bench.quiet import TICKS, busy_seconds
from bench.report import Row, replace_section, spreads, table

CELL = Cell("produce 1 KiB", "produce", 1024, {}, 3.0, 2.0)


def row(target: str, *rates: float) -> Row:
    figures = dict.fromkeys(("megabytes_per_second", "server_cpu_us", "p50_us", "p99_us", "client_cpu_us"), 1.0)
    return Row(CELL, target, [{"requests_per_second": rate, **figures} for rate in rates])


def test_ratios_are_of_medians_and_a_reached_aim_is_bold() -> None:
    lines = table(
        [row("kafka", 90, 100, 500), row("direct", 300, 310, 330), row("gateway", 150, 150, 150)]
    ).splitlines()
    assert lines[2] == "| produce 1 KiB | 100 | 310 **(3.10)** | 150 (1.50) | direct 3.0, gateway 2.0 |"
    assert lines[4] == "| server CPU, µs/request | kafka | direct | gateway |"
    assert lines[6] == "| produce 1 KiB | 1.0 | 1.0 | 1.0 |"


def test_without_kafka_there_is_no_ratio() -> None:
    assert table([row("direct", 300)]).splitlines()[2] == "| produce 1 KiB | 300 | direct 3.0 |"


def test_a_target_that_failed_says_why() -> None:
    failed = Row(CELL, "direct", failure="connection lost")
    lines = table([row("kafka", 100), failed]).splitlines()
    assert lines[2] == "| produce 1 KiB | 100 | failed | direct 3.0 |"
    assert lines[-1] == "- produce 1 KiB, direct: connection lost"


def test_the_spread_is_said_once_for_all_cells() -> None:
    assert "410% at most" in spreads([row("kafka", 90, 100, 500), row("direct", 300, 310, 330)])


def test_a_section_is_replaced_and_the_rest_stays() -> None:
    written = replace_section("# Title\n", "load", "old")
    again = replace_section(written + "\nWhy it is so.\n", "load", "new")
    assert "old" not in again
    assert again.startswith("# Title\n")
    assert again.endswith("Why it is so.\n")
    assert "<!-- load -->\nnew\n<!-- /load -->" in again


def test_the_calmest_runs_count() -> None:
    disturbed = row("direct", 100, 200, 300, 400)
    for run, share in zip(disturbed.runs, (0.5, 0.0, 0.3, 0.1), strict=True):
        run["foreign_share"] = share
    assert disturbed.disturbance(2) == 0.1
    disturbed.keep_calmest(2)
    assert [run["requests_per_second"] for run in disturbed.runs] == [200, 400]


def test_idle_and_guest_time_are_no_work() -> None:
    stat = f"cpu  {TICKS} {TICKS} {TICKS} 999 999 {TICKS} {TICKS} {TICKS} 999 999\ncpu0 1"
    assert busy_seconds(stat) == 6
