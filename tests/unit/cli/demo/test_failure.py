"""The main job's parts that need no cluster: which lines, how they are counted, what the group reports."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tailrace.cli.demo import lines
from tailrace.cli.demo.failure import Victim, victim_of
from tailrace.cli.demo.silence import Silence
from tailrace.cli.demo.tally import Tally
from tailrace.runtime.run_files import RunFile, start_ticks


def machine(root: Path) -> Path:
    (root / "var/log/apt").mkdir(parents=True)
    (root / "var/lib/dpkg/info").mkdir(parents=True)
    (root / "var/log/dpkg.log").write_bytes(b"one\r\n\ntwo\n")
    with gzip.open(root / "var/log/dpkg.log.1.gz", "wb") as file:
        file.write(b"three\n")
    (root / "var/log/apt/history.log").write_bytes(b"four\nno line end")
    (root / "var/lib/dpkg/info/bash.list").write_bytes(b"/bin/bash\n")
    return root


def test_logs_come_first_and_packed_ones_are_unpacked(tmp_path: Path) -> None:
    found = list(lines.machine_lines(machine(tmp_path), journal=False))
    assert found == [b"one", b"two", b"three", b"four", b"no line end", b"/bin/bash"]


def test_a_log_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    root = machine(tmp_path)
    (root / "var/log/dpkg.log.2.gz").write_bytes(b"not packed at all")
    (root / "var/log/syslog.1").mkdir()
    assert len(list(lines.machine_lines(root, journal=False))) == 6


def test_too_few_lines_come_round_again_and_it_is_known_how_many_there_were(tmp_path: Path) -> None:
    taken, distinct = lines.take(15, machine(tmp_path), journal=False)
    assert (len(taken), distinct) == (15, 6)
    assert taken[:6] == taken[6:12]


def test_a_machine_without_logs_gives_no_line(tmp_path: Path) -> None:
    assert lines.take(10, tmp_path, journal=False) == ([], 0)


def tally(*values: bytes) -> Tally:
    total = Tally()
    for value in values:
        total = total.plus(value)
    return total


def test_a_tally_does_not_depend_on_order_or_on_who_counted() -> None:
    assert tally(b"a", b"b", b"c") == tally(b"c", b"a").merged(tally(b"b"))


def test_a_tally_shows_a_lost_a_doubled_and_a_changed_line() -> None:
    sent = tally(b"a", b"b", b"c")
    assert sent != tally(b"a", b"b")
    assert sent != tally(b"a", b"b", b"b")
    assert sent.checksum != tally(b"a", b"b", b"d").checksum


def test_the_silence_of_a_partition_begins_with_its_last_acknowledgement_before_the_kill() -> None:
    silence = Silence({1, 2})
    for partition, now_ms in ((1, 0.0), (1, 500.0), (2, 900.0)):
        silence.on_record(partition, now_ms)
    silence.began(1000.0)
    silence.on_record(0, 9000.0)  # led by somebody else
    silence.on_record(1, 1200.0)
    silence.on_record(2, 1100.0)
    assert silence.longest_ms == 700.0
    silence.on_record(1, 1250.0)
    assert silence.longest_ms == 700.0


def test_the_silence_of_a_partition_that_was_never_heard_begins_with_the_kill() -> None:
    silence = Silence({1})
    silence.began(1000.0)
    silence.on_record(1, 1300.0)
    assert silence.longest_ms == 300.0


def row(leader: int, *isr: int) -> Any:
    return SimpleNamespace(leader_id=leader, isr_nodes=isr)


def test_the_broker_that_leads_most_and_runs_here_is_killed_if_another_can_take_over(tmp_path: Path) -> None:
    rows = {("t", 0): row(0, 0, 1), ("t", 1): row(1, 1, 0), ("t", 2): row(1, 1, 2), ("t", 3): row(2, 2)}
    assert victim_of(rows, tmp_path) is None
    (tmp_path / "run").mkdir()
    parent = os.getppid()
    for number in (0, 1):
        RunFile("broker", number, parent, start_ticks(parent), 0).write(tmp_path / "run")
    found = victim_of(rows, tmp_path)
    assert found == Victim(1, parent, frozenset({1, 2}))
    alone = {("t", 0): row(0, 0), ("t", 1): row(-1, 0, 1)}
    assert victim_of(alone, tmp_path) is None
