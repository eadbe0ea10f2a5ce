"""The wheel and the source distribution, built; environments in which only the wheel is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from support.commands import ROOT

UV = Path(sys.executable).parent / "uv"
# Where Python interpreters of other versions may lie that PATH does not name.
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
OLDEST = (3, 11)


@dataclass(frozen=True)
class Built:
    """`uv build` makes the wheel from the source distribution: what one lacks, the other lacks."""

    wheel: Path
    sdist: Path


@dataclass(frozen=True)
class Installed:
    """An environment without the source tree."""

    bin: Path
    folder: Path  # to run in
    environ: dict[str, str]

    def run(self, command: str, *arguments: str | Path, typed: str = "", status: int = 0) -> str:
        """What a command of the environment prints; raises AssertionError with it where its status is another."""
        done = subprocess.run(
            [self.bin / command, *arguments],
            input=typed,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=400,
            check=False,
            cwd=self.folder,
            env=self.environ,
        )
        assert done.returncode == status, (arguments, done.stdout)
        return done.stdout


def uv(*arguments: str | Path, cwd: Path = ROOT) -> None:
    """Raises AssertionError with what uv said."""
    environ = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    done = subprocess.run(
        [UV, "--quiet", *arguments], capture_output=True, text=True, timeout=300, check=False, cwd=cwd, env=environ
    )
    assert done.returncode == 0, done.stderr


def build(folder: Path) -> Built:
    """Both, into the folder."""
    uv("build", "--out-dir", folder, ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Built(wheel, sdist)


def install(package: str, folder: Path, python: str) -> Installed:
    """`package` (a wheel, with extras in brackets) in an environment of its own, with the versions that are tested."""
    uv("venv", "--python", python, folder / "environment")
    binaries = folder / "environment" / "bin"
    uv("pip", "install", "--compile-bytecode", "--python", binaries / "python", "-c", ROOT / "constraints.txt", package)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    environ = {"PATH": f"{binaries}:/usr/bin:/bin", "HOME": str(elsewhere), "LANG": "C.UTF-8"}
    return Installed(binaries, elsewhere, environ)


def pythons() -> dict[str, str]:
    """The interpreters to try by their versions: this one, and the newest that this machine has."""
    found: dict[tuple[int, ...], str] = {}
    named = (shutil.which(f"python3.{minor}") for minor in range(OLDEST[1], OLDEST[1] + 10))
    for path in (*(Path(name) for name in named if name), *PYENV.glob("3.*/bin/python")):
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)  # a shim may refuse
        if match := re.fullmatch(r"Python (\d+)\.(\d+)\.\d+\s*", done.stdout):
            found.setdefault(tuple(map(int, match.groups())), str(path))
    found = {version: path for version, path in found.items() if version >= OLDEST}
    found[sys.version_info[:2]] = sys.executable
    return {f"{version[0]}.{version[1]}": found[version] for version in sorted({sys.version_info[:2], max(found)})}
