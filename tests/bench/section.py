"""A section of a page that a benchmark writes: on what it was measured, by which command, and the tables."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import machine, report


@dataclass(frozen=True)
class Section:
    """`name` is between the section's marks in the page; `module` is the benchmark; kafka: measured beside Kafka."""

    name: str
    module: str
    page: Path = report.DOCUMENT
    kafka: bool = True

    def parser(self, what: str) -> ArgumentParser:
        """With --output, which names the page."""
        parser = ArgumentParser(prog=f"python -m {self.module}", description=f"{what} Never fails.")
        parser.add_argument("--output", type=Path, default=self.page, help="the page to rewrite")
        return parser

    def write(self, lines: Sequence[str], arguments: Sequence[str], output: Path, remark: str = "") -> None:
        """Rewrites the section in that page; the remark stands behind the command."""
        command = " ".join(["PYTHONPATH=tests python -m", self.module, *arguments])
        about = [*machine.describe(kafka=self.kafka), f"Command: `{command}`. {remark}".rstrip(), ""]
        report.write_section(self.name, "\n".join([*about, *lines]), output)
