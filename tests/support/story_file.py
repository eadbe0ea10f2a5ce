"""docs/images/replication/story.json: what the story's test observed, by target; the page's pictures are made of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.story import Step, as_json

FILE = Path(__file__).resolve().parents[2] / "docs" / "images" / "replication" / "story.json"


def keep(target: str, steps: Sequence[Step]) -> None:
    """Replaces one target's observations."""
    told: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    told[target] = as_json(steps)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
