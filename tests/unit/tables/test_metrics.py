"""The metrics of the worker, as the page of metrics has them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from support.documented_metrics import BESIDE, documented
from support.metric_rules import problems
from tailrace.tables.metrics import TableMetrics


def test_the_page_names_every_metric_of_the_worker() -> None:
    registry = CollectorRegistry()
    TableMetrics(registry)
    text = generate_latest(registry).decode()
    names = {line.split(" ")[2].removeprefix("tailrace_") for line in text.splitlines() if line.startswith("# TYPE")}
    assert {name for name in names if not name.endswith("_created")} == documented(BESIDE)["table"]
    assert list(problems(text)) == []
