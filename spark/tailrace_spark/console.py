"""What a job says to the person who runs it; Spark's own log goes elsewhere (session.py)."""

import sys


def say(text: str) -> None:
    """One line on stdout, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    """One line on stderr, at once."""
    sys.stderr.write(f"tailrace-spark: {text}\n")
    sys.stderr.flush()
