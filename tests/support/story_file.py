"""docs/images/replication/story.json: what the story's test observed, by target; the page's pictures are made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.story import Step, as_json

FILE = Path(__file__).resolve().parents[2] / "docs" / "images" / "replication" / "story.json"


def keep(target: str, steps: Sequence[Step]) -> None:
    """Replaces one target's observations."""
    told: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    told[target] = as_json(steps)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(written(told))


def written(told: Mapping[str, Sequence[Any]]) -> str:
    """JSON with a line per step."""
    targets = [
        f'"{name}": [\n' + ",\n".join(json.dumps(step, sort_keys=True) for step in steps) + "\n]"
        for name, steps in sorted(told.items())
    ]
    return "{\n" + ",\n".join(targets) + "\n}\n"
