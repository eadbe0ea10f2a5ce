"""The layers: every test belongs to one part."""

from __future__ import annotations

import re

from support.commands import ROOT
from support.layers.__main__ import choose, parts_of
from support.layers.table import LAYERS, SEED


def test_without_a_name_every_layer_runs_but_the_one_that_is_named_only() -> None:
    assert choose([]) == ([name for name in LAYERS if name not in ("bench",)], [])


def test_what_follows_the_layers_is_for_pytest() -> None:
    assert choose(["unit", "sim", "-k", "log"]) == (["unit", "sim"], ["-k", "log"])
    assert choose(["-x"])[1] == ["-x"]


def test_what_is_apart_is_there_and_left_out_of_the_first_part() -> None:
    for name, layer in LAYERS.items():
        apart = [place for group in layer.apart for place in group]
        assert [place for place in apart if not (ROOT / place).exists()] == []
        assert len(parts_of(name, [])) == max(1 + len(layer.apart), len(layer.commands))
        if apart:
            first, *others = [part.commands[0] for part in parts_of(name, [])]
            assert [word.removeprefix("--ignore=") for word in first if word.startswith("--ignore=")] == apart
            assert [word for other in others for word in other if word.startswith("tests/")] == apart


def test_a_layer_with_options_is_one_part() -> None:
    (part,) = parts_of("integration", ["-k", "packages"])
    assert part.commands[0][-2:] == ("-k", "packages") and part.name == "integration"


def test_one_seed_orders_the_tests_of_a_whole_run_and_ci_fixes_it() -> None:
    commands = [command for name in LAYERS for part in parts_of(name, []) for command in part.commands]
    tests = [command for command in commands if "pytest" in command]
    assert len(tests) > len(LAYERS)
    for command in tests:
        assert {f"--randomly-seed={SEED}", f"--hypothesis-seed={SEED}"} < set(command)
    assert re.search(r"^export TEST_SEED=\S*\d", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
