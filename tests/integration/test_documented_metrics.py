"""Every metric that a role exports is in docs/metrics.md and has a name as Prometheus wants it; none else is there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.request import urlopen

from support.documented_metrics import ROLES, documented
from support.metric_rules import problems
from support.waiting import HUNG_S
from tailrace.testing import Cluster


def page(cluster: Cluster, role: str) -> str:
    running = json.loads((cluster.data_dir / "run" / f"{role}-0.json").read_text())
    with urlopen(f"http://{running['addresses']['http']}/metrics", timeout=HUNG_S) as answer:
        return str(answer.read().decode())


def exported(text: str) -> set[str]:
    return set(re.findall(r"^# TYPE tailrace_(\w+) ", text, re.MULTILINE))


def test_the_page_names_every_metric_and_no_other(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path / "cluster") as cluster:
        found = {role: page(cluster, role) for role in ROLES}
    assert {role: exported(text) for role, text in found.items()} == documented()
    assert {role: list(problems(text)) for role, text in found.items()} == {role: [] for role in ROLES}
