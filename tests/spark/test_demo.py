"""The demo finds this machine's logs: text of any age, zipped or not, each line with where it is from."""

from __future__ import annotations

import gzip
from pathlib import Path

from tailrace_spark.demo.machine import machine_lines


def test_lines_of_readable_text_with_their_source(tmp_path: Path) -> None:
    (tmp_path / "dpkg.log").write_text("one\n\ntwo\r\n")
    (tmp_path / "dpkg.log.1").write_text("older\n")
    (tmp_path / "dpkg.log.2.gz").write_bytes(gzip.compress(b"oldest\n"))
    (tmp_path / "syslog").write_bytes(b"\xff not UTF-8, as it came\n")
    (tmp_path / "lastlog.log").write_bytes(b"\0\0binary\n")
    (tmp_path / "broken.log.gz").write_bytes(b"no gzip")
    (tmp_path / "apt").mkdir()
    (tmp_path / "apt" / "history.log").write_text("a\nb\nc\n")
    found = list(machine_lines(2, tmp_path, journal=False))
    assert found == [
        ("apt/history", b"b"),
        ("apt/history", b"c"),
        ("dpkg", b"one"),
        ("dpkg", b"two"),
        ("dpkg", b"older"),
        ("dpkg", b"oldest"),
        ("syslog", b"\xff not UTF-8, as it came"),
    ]


def test_a_machine_without_readable_logs_has_none(tmp_path: Path) -> None:
    assert list(machine_lines(10, tmp_path / "nothing", journal=False)) == []
