"""Which services share Unix sockets: those of one boot and one root, so not two containers of one machine."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from tailrace.runtime.run_files import boot_id


def test_containers_of_one_machine_have_ids_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = boot_id()
    assert ours == boot_id() != ""
    monkeypatch.setattr(os, "stat", lambda _: SimpleNamespace(st_dev=99, st_ino=7))
    theirs = boot_id()
    assert theirs != ours
    assert theirs.rpartition("-")[0].rpartition("-")[0] == ours.rpartition("-")[0].rpartition("-")[0]
