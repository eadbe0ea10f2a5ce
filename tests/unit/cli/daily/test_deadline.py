"""The time of a command: how long it may take, what it says when that is over, and that all have the option."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from support.ports import free_ports
from tailrace.cli.daily import COMMANDS, app
from tailrace.cli.daily.deadline import Deadline
from tailrace.cli.daily.refusals import RefusedError
from tailrace.clock import ManualClock


def test_a_command_that_takes_longer_says_what_it_waits_for_and_which_option_waits_longer() -> None:
    clock = ManualClock()
    deadline = Deadline(clock)
    deadline.check("an answer")
    assert deadline.left_ms(10_000) == 10_000
    clock.advance(25_000)
    assert deadline.left_ms(10_000) == 5_000
    clock.advance(5_000)
    with pytest.raises(RefusedError, match="not done within 30 s: an answer; --timeout SECONDS waits longer"):
        deadline.check()


def test_a_command_that_lasts_has_no_end_of_its_own_but_every_step_has() -> None:
    clock = ManualClock()
    deadline = Deadline(clock, lasting=True)
    clock.advance(1e9)
    deadline.check("records")
    assert deadline.left_ms(60_000) == 30_000
    with pytest.raises(RefusedError, match="not done within 30 s: an assignment"):
        deadline.check_patience(0, "an assignment")


def test_a_command_that_lasts_ends_where_timeout_says_so() -> None:
    clock = ManualClock()
    deadline = Deadline(clock, lasting=True, timeout_s=2)
    clock.advance(2_000)
    with pytest.raises(RefusedError, match="not done within 2 s: records"):
        deadline.check("records")


def leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(command, TyperGroup):
        for inner, found in command.commands.items():
            yield from leaves(found, f"{name} {inner}")
    else:
        yield name, command


def test_every_command_that_asks_a_cluster_has_the_option() -> None:
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    asking = {name for name, command in COMMANDS.items() if command.module.startswith("tailrace.cli.daily")}
    assert {"topic", "consume", "status", "quota"} <= asking
    with root.make_context("tailrace", [], resilient_parsing=True) as context:
        for name in asking:
            for path, command in leaves(root.get_command(context, name), name):
                options = [option for parameter in command.params for option in parameter.opts]
                assert options.count("--timeout") == 1, path


@pytest.mark.parametrize("seconds", ["-1", "inf", "nan", "x", ""])
def test_what_is_no_time_is_a_usage_error(seconds: str) -> None:
    done = CliRunner().invoke(app, ["topic", "list", "-b", f"127.0.0.1:{free_ports(1)}", "--timeout", seconds])
    assert done.exit_code == 2, done.output


def test_the_option_holds_for_its_own_command_alone() -> None:
    where = f"127.0.0.1:{free_ports(1)}"
    assert CliRunner().invoke(app, ["topic", "list", "-b", where, "--timeout", "7"]).exit_code == 1
    assert Deadline(ManualClock()).patience_ms == 30_000
