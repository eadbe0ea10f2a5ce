"""What Prometheus and Grafana are given in deploy/: every metric that it asks for is documented, and so exported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from support.commands import ROOT
from support.documented_metrics import documented

RULES = ROOT / "deploy/prometheus/tailrace.rules.yml"
DASHBOARD = ROOT / "deploy/grafana/tailrace.json"


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return list(json.loads(DASHBOARD.read_text())["panels"])


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    yield from (target["expr"] for panel in panels() for target in panel["targets"])


def test_every_metric_that_is_asked_for_is_documented() -> None:
    known = frozenset[str]().union(*documented().values())
    asked = {name.removesuffix("_bucket") for expr in expressions() for name in re.findall(r"\btailrace_(\w+)", expr)}
    assert asked - known == set()
    assert len(asked) > 20  # the expressions were found


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_the_brackets_of_an_expression_match(expression: str) -> None:
    pairs, opened = {")": "(", "]": "[", "}": "{"}, list[str]()
    for character in re.sub(r'"[^"]*"', "", expression):
        if character in pairs.values():
            opened.append(character)
        elif character in pairs:
            assert opened.pop() == pairs[character]
    assert not opened


def test_every_alert_says_what_is_wrong_and_how_bad_it_is() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    assert {rule["labels"]["severity"] for rule in rules()} == {"critical", "warning"}
    assert all(rule["annotations"]["summary"].endswith((".", "}}.")) for rule in rules())


def test_no_panel_lies_upon_another_one() -> None:
    cells = [
        (x, y)
        for panel in panels()
        for at in [panel["gridPos"]]
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
