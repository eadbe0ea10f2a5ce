"""An older version of Tailrace, from git, whose roles run beside those of the working tree.

It is the newest release tag, or where there is none BASELINE: the commit from which on versions must work together.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

from support.commands import ROOT

BASELINE = "8c90ebe0865b25f4b56d309a3785447e403018c3"
VARIABLE = "OLD_VERSION"  # names another commit or tag
_SERVICES = ("gateway", "broker", "controller", "coordinator", "quota")


class NoOldVersion(RuntimeError):
    """The repository does not have the commit; the text says which, and how to get it."""


def revision() -> str:
    """The commit or tag that stands for the old version."""
    if named := os.environ.get(VARIABLE):
        return named
    return newest_tag(_git("tag", "--list", "v*", "--sort=-version:refname").stdout.decode().split()) or BASELINE


def newest_tag(tags: list[str]) -> str | None:
    """The newest of release tags in descending order; none of a version that is not released yet."""
    return next((tag for tag in tags if "-" not in tag and "rc" not in tag), None)


def unpack(folder: Path) -> dict[str, str]:
    """Puts the old sources in a folder; returns the environment in which `python -m tailrace_…` runs them.

    Raises NoOldVersion where this is no clone, or a shallow one that cannot be deepened.
    """
    wanted = revision()
    archive = _git("archive", "--format=tar", wanted, "libs", "services")
    if archive.returncode:  # a shallow clone: ask for this one commit
        fetched = _git("fetch", "--quiet", "--depth=1", "origin", wanted)
        archive = _git("archive", "--format=tar", wanted, "libs", "services")
        if archive.returncode:
            why = (fetched.stderr or archive.stderr).decode().strip()
            raise NoOldVersion(f"the old version {wanted} is not in this repository ({why}): git fetch --unshallow")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    paths = [folder / "libs", *(folder / "services" / name for name in _SERVICES)]
    return {"PYTHONPATH": os.pathsep.join(map(str, paths))}


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
