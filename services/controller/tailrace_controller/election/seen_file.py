"""What this data directory's controllers know of the metadata log: proof, after a restart, that a database is older.

It is a witness and no more: written beside the log without fsync, a lost one proves nothing.
"""

import json
from pathlib import Path
from typing import Any

from tailrace.private_files import private_folder, private_opener
from tailrace_controller.election.acceptance import Seen

DIRECTORY = "metadata-seen"
NOTE_EVERY_MS = 1000.0


class SeenFile:
    """One controller's file; all files of the directory are read. token is what tells data directories apart."""

    def __init__(self, data_dir: Path, node_id: int, new_token: str) -> None:
        """new_token is for a directory that has none yet."""
        self._directory = data_dir / DIRECTORY
        self._path = self._directory / f"controller-{node_id}.json"
        self._noted_ms = -NOTE_EVERY_MS
        known = _read(self._path)
        self.token = str(known.get("token") or new_token)
        if not known:
            private_folder(self._directory)
            self._write({"token": self.token})

    def read(self, cluster_id: str) -> Seen:
        """Returns the highest that was seen of this cluster's log."""
        return self.read_all().get(cluster_id, Seen())

    def read_all(self) -> dict[str, Seen]:
        """Returns the highest that was seen, by cluster id."""
        seen: dict[str, Seen] = {}
        for path in self._directory.glob("controller-*.json"):
            known = _read(path)
            name = str(known.get("cluster_id"))
            noted = Seen(int(known.get("offset", -1)), int(known.get("epoch", -1)))
            seen[name] = seen.get(name, Seen()).and_(noted)
        return seen

    def note(self, cluster_id: str, seen: Seen, now_ms: float, *, at_once: bool = False) -> None:
        """Writes down how far the log was seen, once a second at most; an epoch is noted at once."""
        if at_once or now_ms - self._noted_ms >= NOTE_EVERY_MS:
            self._noted_ms = now_ms
            self._write({"token": self.token, "cluster_id": cluster_id, "offset": seen.offset, "epoch": seen.epoch})

    def _write(self, known: dict[str, object]) -> None:
        new = self._path.with_suffix(".new")
        with open(new, "w", opener=private_opener) as file:
            file.write(json.dumps(known))
        new.replace(self._path)


def _read(path: Path) -> dict[str, Any]:
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
