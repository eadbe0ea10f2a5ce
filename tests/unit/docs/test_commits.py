"""Every commit since the rule says `area: verb what` in its subject, and why in its body."""

from __future__ import annotations

import re
import subprocess

from support.commands import ROOT

BEFORE_THE_RULE = "75b95ae7c542"  # the last commit that it does not hold for
SUBJECT = re.compile(r"[a-z0-9_/. -]+: [a-z].*")
MOST_CHARACTERS = 72
FEWEST_WORDS = 5


def messages() -> list[str]:
    """The messages of the commits that are no merges; none in an archive of the sources, which has no history."""
    command = ("git", "log", "--no-merges", "-z", "--format=%B", f"{BEFORE_THE_RULE}..HEAD")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return [message.strip() for message in done.stdout.split("\0") if message.strip()]


def is_well_formed(message: str) -> bool:
    subject, _, rest = message.partition("\n")
    blank, _, body = rest.partition("\n")
    fits = SUBJECT.fullmatch(subject) is not None and len(subject) <= MOST_CHARACTERS and not subject.endswith(".")
    return fits and not blank and len(body.split()) >= FEWEST_WORDS


def test_every_commit_keeps_the_rule() -> None:
    assert [message.partition("\n")[0] for message in messages() if not is_well_formed(message)] == []


def test_what_breaks_the_rule_is_found() -> None:
    body = "\n\nA leader sends them twice, and a follower took that for damage."
    assert is_well_formed("broker: drop rows whose offset is not the log end" + body)
    for subject in ("Drop rows", "broker: Drop rows", "broker: drop rows.", "broker: drop " + "rows " * 20):
        assert not is_well_formed(subject + body)
    assert not is_well_formed("broker: drop rows")
    assert not is_well_formed("broker: drop rows\nA leader sends them twice, and more.")
