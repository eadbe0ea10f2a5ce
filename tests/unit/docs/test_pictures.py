"""The pictures of docs/replication.md and docs/groups.md show what was observed."""

from __future__ import annotations

from types import ModuleType
from xml.etree import ElementTree

import pytest

from support import group_pictures, story_pictures

MODULES = pytest.mark.parametrize("module", [group_pictures, story_pictures], ids=lambda module: module.__name__)


@MODULES
def test_the_pictures_are_made_of_the_observed_answers(module: ModuleType) -> None:
    assert module.main(["--check"]) == 0


@MODULES
def test_every_picture_is_well_formed(module: ModuleType) -> None:
    for svg in module.pictures().values():
        assert ElementTree.fromstring(svg).tag.endswith("svg")
