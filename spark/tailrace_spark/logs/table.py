"""A table of log lines: its commits on storage, and what a crash may leave behind.

    data/source=S/hour=H/*.parquet      the lines
    index/source=S/hour=H/*.parquet     term -> blocks of lines
    commits/00000000000000000007.json   what version 7 added and removed
    snapshots/…                         the whole state now and then
    staging/                            files that Spark is writing
Files that no commit names are nobody's: a write that died before its commit left them, and `vacuum` takes them away.
"""

from __future__ import annotations

from collections.abc import Callable

from tailrace_spark.logs import manifest
from tailrace_spark.logs.files import Found, TableFiles
from tailrace_spark.logs.manifest import Commit, State

SNAPSHOT_EVERY = 20
STAGING = "staging"


class Table:
    """Every writer and reader has its own; they meet on storage only."""

    def __init__(self, files: TableFiles) -> None:
        self.files = files
        self._known = State()

    def url(self, path: str) -> str:
        """For Spark."""
        return f"{self.files.url}/{path}"

    def state(self) -> State:
        """The newest version."""
        state = self._known
        newest = max((version_of(found.path) for found in self.files.list("snapshots")), default=-1)
        if newest > state.version:
            state = manifest.read_state(self.files.read(snapshot_path(newest)))
        while (data := self._try_read(commit_path(state.version + 1))) is not None:
            state = state.apply(manifest.read_commit(data))
        self._known = state
        return state

    def _try_read(self, path: str) -> bytes | None:
        try:
            return self.files.read(path)
        except FileNotFoundError:
            return None

    def commit(self, commit: Commit) -> State | None:
        """The state with it, or None where another writer made it impossible (State.may)."""
        while (state := self.state()).may(commit):
            if self.files.create(commit_path(state.version + 1), manifest.write_commit(commit)):
                self._known = state = state.apply(commit)
                if state.version % SNAPSHOT_EVERY == SNAPSHOT_EVERY - 1:
                    self.files.create(snapshot_path(state.version), manifest.write_state(state))
                return state
        return None

    def vacuum(self, older_than_ms: int, say: Callable[[str], None]) -> int:
        """Deletes files that the table is not made of and that are older; a reader that began before still has them.

        `older_than_ms` is a time since 1970. Returns how many.
        """
        listed = [found for folder in ("data", "index", STAGING) for found in self.files.list(folder)]
        live = {path for segment in self.state().segments.values() for path in segment.paths}
        removed = self._removed_since(older_than_ms)
        gone = [found for found in listed if is_litter(found, live, removed, older_than_ms)]
        for found in gone:
            self.files.delete(found.path)
        say(f"vacuum: {len(gone)} files deleted, {sum(found.size_bytes for found in gone):,} bytes")
        return len(gone)

    def _removed_since(self, since_ms: int) -> set[str]:
        """Files of segments that a compaction took out after that: someone may still read them."""
        state, found = State(), set()
        for each in self.files.list("commits"):
            commit = manifest.read_commit(self.files.read(each.path))
            if each.modified_ms >= since_ms:
                found |= {path for name in commit.remove for path in state.segments[name].paths}
            state = state.apply(commit)
        return found


def is_litter(found: Found, live: set[str], removed: set[str], older_than_ms: int) -> bool:
    """True for a file that vacuum takes away."""
    return found.path not in live and found.path not in removed and found.modified_ms < older_than_ms


def commit_path(version: int) -> str:
    """Sorts by version."""
    return f"commits/{version:020}.json"


def snapshot_path(version: int) -> str:
    """The state at that version."""
    return f"snapshots/{version:020}.json"


def version_of(path: str) -> int:
    """Of a commit or a snapshot."""
    return int(path.rpartition("/")[2].removesuffix(".json"))
