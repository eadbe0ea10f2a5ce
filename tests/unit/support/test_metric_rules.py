"""The rules of promtool: what is right passes, and each rule finds what breaks it."""

from __future__ import annotations

import pytest

from support.metric_rules import problems


@pytest.mark.parametrize(
    ("name", "kind"),
    [("connections", "gauge"), ("requests_total", "counter"), ("lease_age_seconds", "gauge"), ("pool_bytes", "gauge")],
)
def test_a_name_as_prometheus_wants_it_passes(name: str, kind: str) -> None:
    assert list(problems(f"# HELP {name} What it is.\n# TYPE {name} {kind}\n{name} 1\n")) == []


@pytest.mark.parametrize(
    ("name", "kind", "what"),
    [
        ("connection_count", "gauge", "ends in _count"),
        ("requests", "counter", "end in _total"),
        ("requests_total", "gauge", "end in _total"),
        ("throttle_time_ms_total", "counter", "abbreviated"),
        ("throttle_time_milliseconds", "gauge", "base unit"),
        ("request_counter_total", "counter", "names a type"),
        ("openConnections", "gauge", "other characters"),
    ],
)
def test_what_breaks_a_rule_is_found(name: str, kind: str, what: str) -> None:
    (said,) = problems(f"# HELP {name} What it is.\n# TYPE {name} {kind}\n")
    assert what in said


def test_a_metric_without_help_is_found() -> None:
    assert list(problems("# HELP up \n# TYPE up gauge\n")) == ["up has no help text"]
