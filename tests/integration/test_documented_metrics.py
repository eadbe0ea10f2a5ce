"""Every metric that a role exports is in docs/metrics.md, and every one that is there is exported by that role."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.request import urlopen

from support.documented_metrics import ROLES, documented
from tailrace.testing import Cluster


def exported(cluster: Cluster, role: str) -> set[str]:
    running = json.loads((cluster.data_dir / "run" / f"{role}-0.json").read_text())
    with urlopen(f"http://{running['addresses']['http']}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return set(re.findall(r"^# TYPE tailrace_(\w+) ", text, re.MULTILINE))


def test_the_page_names_every_metric_and_no_other(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path / "cluster") as cluster:
        assert {role: exported(cluster, role) for role in ROLES} == documented()
