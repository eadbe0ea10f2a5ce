"""An older version of Tailrace, from git, whose roles run beside those of the working tree.

It is the newest release tag, or where there is none a baseline: the commit from which on versions must work together.
"""

from __future__ import annotations

import compileall
import io
import os
import re
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

from support.commands import ROOT

BASELINE = "8c90ebe0865b25f4b56d309a3785447e403018c3"
# Services that meet over TCP logged in by a protocol of their own before it, and are stopped for that upgrade
# (docs/upgrades.md); from it on, versions work together there, too.
BASELINE_OVER_TCP = "accf6092cffd5a3ab349b44c15b1c674ae9e2e5c"
DOCKERFILE = Path("deploy", "image", "Dockerfile")
VARIABLE = "OLD_VERSION"  # names another commit or tag
_SERVICES = ("gateway", "broker", "controller", "coordinator", "quota")
_FOR_AN_IMAGE = ("constraints.txt", "pyproject.toml", "README.md", "LICENSE", "libs", "services", "spark", "deploy")
_RELEASE = re.compile(r"v[0-9]+(\.[0-9]+)*")


class NoOldVersion(RuntimeError):
    """The repository does not have the commit; the text says which, and how to get it."""


def revision(repository: Path = ROOT, baseline: str = BASELINE) -> str:
    """The commit or tag that stands for the old version."""
    if named := os.environ.get(VARIABLE):
        return named
    # Of what HEAD is built on: neither a tag of another branch, nor the one of the version that is being tested.
    listed = _git("tag", "--list", "v*", "--merged", "HEAD", "--no-contains", "HEAD", repository=repository)
    return newest_release(listed.stdout.decode().split()) or baseline


def for_an_image() -> str:
    """The same for containers, whose services meet over TCP."""
    return revision(baseline=BASELINE_OVER_TCP)


def newest_release(tags: Iterable[str]) -> str | None:
    """The tag `v1.2.3` with the highest numbers; one with anything behind them is of a version before its release."""
    released = [tag for tag in tags if _RELEASE.fullmatch(tag)]
    return max(released, key=lambda tag: [int(number) for number in tag[1:].split(".")], default=None)


def unpack(folder: Path, wanted: str | None = None) -> dict[str, str]:
    """Puts the old sources in a folder; returns the environment in which `python -m tailrace_…` runs them.

    wanted: another commit than that of `revision`. They are compiled here, once, and not by each of the processes that
    start together. Raises NoOldVersion where this is no clone, or a shallow one that cannot be deepened.
    """
    _extract(folder, wanted or revision(), "libs", "services")
    compileall.compile_dir(folder, quiet=2, workers=0)
    paths = [folder / "libs", *(folder / "services" / name for name in _SERVICES)]
    return {"PYTHONPATH": os.pathsep.join(map(str, paths))}


def unpack_for_an_image(folder: Path) -> Path:
    """Puts what an image of the old version is built from in a folder; returns the recipe.

    It is the old version's own, or where that had none, the one of the working tree. Raises NoOldVersion.
    """
    _extract(folder, for_an_image(), *_FOR_AN_IMAGE)
    return next(place / DOCKERFILE for place in (folder, ROOT) if (place / DOCKERFILE).exists())


def _extract(folder: Path, wanted: str, *paths: str) -> None:
    """Raises NoOldVersion."""
    archive = _git("archive", "--format=tar", wanted, *paths)
    if archive.returncode:  # a shallow clone: ask for this one commit
        fetched = _git("fetch", "--quiet", "--depth=1", "origin", wanted)
        archive = _git("archive", "--format=tar", wanted, *paths)
        if archive.returncode:
            why = (fetched.stderr or archive.stderr).decode().strip()
            raise NoOldVersion(f"the old version {wanted} is not in this repository ({why}): git fetch --unshallow")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")


def _git(*arguments: str, repository: Path = ROOT) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=repository, capture_output=True, check=False)
