"""Every command of every page can be typed: the program, its commands and its options are there."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from support.command_line import fault
from support.pages import Command, commands, complaints, pages
from tailrace.cli.daily import app


def faults(text: str) -> list[tuple[str, str]]:
    found = ((fault(command), command.words) for command in commands(text))
    return [(why, " ".join(words)) for why, words in found if why]


def test_every_command_can_be_typed() -> None:
    assert complaints(pages(), faults) == {}


def test_commands_are_found_in_blocks_and_in_sentences() -> None:
    page = """A `tailrace topic list` in a sentence.

```console
$ seq 3 | tailrace produce orders          # a comment
3 records written to orders
$ healthy() { tailrace status --data DIR --json | jq -e '.x == 0 and
>     1'; }
$ tailrace reassign generate -t orders \\
    -r 3 > plan.json
```

    tailrace verify-log DIR                # indented
"""
    assert [(" ".join(words), whole) for words, whole in commands(page) if words[0] == "tailrace"] == [
        ("tailrace produce orders", True),
        ("tailrace status --data DIR --json", True),
        ("tailrace reassign generate -t orders -r 3", True),
        ("tailrace verify-log DIR", True),
        ("tailrace topic list", False),
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("tailrace topic lst", "no command tailrace topic lst"),
        ("tailrace topic list --nope", "tailrace topic list: No such option: --nope"),
        ("tailrace topic create", "tailrace topic create: Missing parameter: name"),
        ("tailrace up --nope", "tailrace up has no --nope"),
        ("tailrace broker --nope", "tailrace broker has no --nope"),
        ("tailrace-spark lgs", "no job lgs"),
        ("tailrace-spark logs --nope", "tailrace-spark logs has no --nope"),
        ("python -m bench.nope", "no module bench.nope"),
        ("python -m sim.log --nope", "python -m sim.log has no --nope"),
        ("./test untit", "no layer untit"),
        ("./test spark-newset", "no layer spark-newset"),
        ("./test unit -k nope_nope", "no test has nope_nope in its name"),
        ("./nope", "no ./nope"),
    ],
)
def test_a_command_that_is_not_there_is_found(line: str, why: str) -> None:
    assert (fault(Command(tuple(line.split(" ")), whole=True)) or "").startswith(why)


@pytest.mark.parametrize("group", ["", "topic", "group", "transaction", "config", "reassign", "feature"])
def test_the_help_of_a_group_tells_each_command_in_a_whole_sentence(group: str) -> None:
    said = CliRunner().invoke(app, [*group.split(), "--help"], terminal_width=80).output
    lines = said.partition("Commands:")[2].splitlines()
    assert len(lines) > 2
    assert not [line for line in lines if line.endswith("...")]
