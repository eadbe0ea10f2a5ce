"""The command line of the benchmarks that measure cells against Tailrace and Apache Kafka by turns."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from bench import report
from bench.memory import add_option


def parse(arguments: list[str], program: str, description: str, *, jvm_warm_up: float) -> Namespace:
    """What to measure, how long and how often; jvm_warm_up is the default of that option, in seconds."""
    parser = ArgumentParser(prog=f"python -m {program}", description=f"{description} Never fails.")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=3, help="measurements per cell and target; the median counts")
    parser.add_argument("--cells", default="", help="only cells whose name contains this")
    parser.add_argument("--only", choices=("kafka", "tailrace"), help="leave the other out")
    parser.add_argument(
        "--jvm-warm-up", type=float, default=jvm_warm_up, help="seconds of load before the first measurement"
    )
    add_option(parser)
    parser.add_argument("--output", type=Path, default=report.DOCUMENT, help="the report to rewrite")
    return parser.parse_args(arguments)
