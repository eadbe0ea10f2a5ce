"""The pinned packages against the advisories of PyPI: a maintainer's command, `python -m support.audit`.

pip-audit says "no known vulnerabilities" of packages that it could not look up. Here they count as not audited.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.commands import ROOT

PIP_AUDIT = "pip-audit==2.10.1"


def findings(report: Mapping[str, Any], pinned: Mapping[str, str]) -> list[str]:
    """A line for each package with an advisory, and for each that was not looked up."""
    audited = {row["name"]: row for row in report.get("dependencies", ())}
    lines = []
    for name, version in pinned.items():
        row = audited.get(name)
        if row is None or "skip_reason" in row:
            why = "it is not in the report" if row is None else row["skip_reason"]
            lines.append(f"{name} {version}: not audited: {why}")
            continue
        for found in row["vulns"]:
            fixed = ", ".join(found.get("fix_versions", ())) or "no version"
            lines.append(f"{name} {version}: {found['id']}, fixed in {fixed}")
    return lines


def verdict(output: str, pinned: Mapping[str, str]) -> tuple[str, int]:
    """What is printed of pip-audit's output, and the exit status: 1 for findings, 2 where it gave no report."""
    try:
        report = json.loads(output)
    except ValueError:
        return f"{len(pinned)} packages: not audited: pip-audit gave no report\n", 2
    lines = findings(report, pinned)
    return "".join(f"{line}\n" for line in lines) or f"{len(pinned)} packages: no advisory\n", 1 if lines else 0


def main() -> int:
    """Prints the verdict, and what pip-audit said where it gave no report."""
    constraints = ROOT / "constraints.txt"
    pinned = dict(line.split("==") for line in constraints.read_text().split())
    tool = [str(Path(sys.executable).parent / "uv"), "tool", "run", "--from", PIP_AUDIT, "pip-audit"]
    command = [
        *tool,
        "-r",
        str(constraints),
        "--no-deps",
        "--disable-pip",
        "--format",
        "json",
        "--progress-spinner",
        "off",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said, status = verdict(done.stdout, pinned)
    sys.stdout.write(said)
    if status == 2:
        sys.stderr.write(done.stderr)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
