"""Commands that are typed at a RefusingCluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kafka
import pytest
from kafka.future import Future
from typer.testing import CliRunner, Result

from support.refusing_cluster import RefusingCluster
from support.typed_commands import Argument, right
from tailrace.cli.daily import app, nodes


class Producer:
    """kafka-python's, as far as `tailrace produce` uses it."""

    def __init__(self, **_: Any) -> None:
        pass

    def send(self, topic: str, **_: Any) -> Any:
        return Future()

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


class Clock:
    """Pauses take no time of the test's."""

    def __init__(self) -> None:
        self._now_ms = 0.0

    async def sleep(self, time_ms: float) -> None:
        self._now_ms += time_ms

    def wall_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic_ms(self) -> float:
        return self._now_ms


def run(
    monkeypatch: pytest.MonkeyPatch, cluster: RefusingCluster, path: str, arguments: tuple[Argument, ...], folder: Path
) -> Result:
    """Types a command without a mistake; its plan is a file in the folder."""
    monkeypatch.setattr(nodes, "Client", cluster.client)
    monkeypatch.setattr(nodes, "SystemClock", Clock)
    monkeypatch.setattr(kafka, "KafkaProducer", Producer)
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"partitions": [{"topic": "orders", "partition": 1, "replicas": [0]}]}))
    typed = [word.format(plan=plan, log_dir="/data") for word in right(path, arguments)]
    return CliRunner().invoke(app, typed, input="", env={"TAILRACE_BOOTSTRAP": "127.0.0.1:1"})
