"""The `tailrace` command."""

from tailrace.cli.command import main

__all__ = ["main"]
