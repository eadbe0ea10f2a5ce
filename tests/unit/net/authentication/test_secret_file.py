"""The file of the secret: made once and private, and refused in a sentence where it is not."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest
import structlog

from tailrace.clock import ManualClock
from tailrace.config import Config, ConfigError
from tailrace.net.authentication.secret import Secret
from tailrace.net.authentication.secret_file import LOOK_EVERY_MS, NAME, SecretWatch, make_secret, read_secret
from tailrace.net.background import in_background


def config(path: Path | None = None) -> Config:
    return Config.load("broker", overrides={"internal.secret.file": str(path)} if path else {})


def said(secret: Secret | None) -> bytes:
    assert secret is not None
    return secret.derived(b"test")


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_secret_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_secret(tmp_path)
    finally:
        os.umask(before)
    first = (tmp_path / NAME).read_text()
    make_secret(tmp_path)
    assert (tmp_path / NAME).read_text() == first
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_two_data_directories_have_two_secrets_and_a_copied_file_one(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    make_secret(tmp_path / "a")
    make_secret(tmp_path / "b")
    copy = written(tmp_path / "c" / NAME, (tmp_path / "a" / NAME).read_text().strip() + "\n\n")
    one, other = (read_secret(config(), tmp_path / name) for name in ("a", "b"))
    assert said(one) != said(other)
    assert said(one) == said(read_secret(config(), copy.parent)) == said(read_secret(config(copy), tmp_path / "b"))


def test_without_a_file_there_is_no_secret(tmp_path: Path) -> None:
    assert read_secret(config(), tmp_path) is None


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"internal\.secret\.file: .*none cannot be read"):
        read_secret(config(tmp_path / "none"), tmp_path)


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("x" * 64, 0o644, "can be opened by others"),
        ("x" * 31, 0o600, "of 31 bytes"),
        ("\n" * 64, 0o600, "of 0 bytes"),
        ("x" * 64 + "\nshort", 0o600, "of 5 bytes"),
        (f"{'x' * 32}\n" * 9, 0o600, "9 secrets"),
    ],
)
def test_a_file_that_keeps_no_secret_is_refused(tmp_path: Path, text: str, mode: int, why: str) -> None:
    path = written(tmp_path / "s", text, mode)
    with pytest.raises(ConfigError, match=why):
        read_secret(config(path), tmp_path)


class Changing:
    """A file that is changed while a service looks at it."""

    def __init__(self, path: Path) -> None:
        self.path = written(path, "a" * 32)
        found = read_secret(config(path), path.parent, "broker-1")
        assert found is not None
        self.secret = found
        self.clock = ManualClock()
        self.log = structlog.testing.CapturingLogger()
        self.watch = SecretWatch(path, found, self.clock, self.log)

    async def change(self, text: str, mode: int = 0o600) -> list[str]:
        """The events of the log since then."""
        written(self.path, text, mode)
        self.log.calls.clear()
        for _ in range(3):
            self.clock.advance(LOOK_EVERY_MS)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return [call.args[0] for call in self.log.calls]


async def test_a_changed_file_is_taken_up_and_a_wrong_one_is_reported_once(tmp_path: Path) -> None:
    file = Changing(tmp_path / "s")
    before = file.secret.ids
    async with in_background(file.watch.run()):
        await asyncio.sleep(0)
        assert await file.change("a" * 32 + "\n" + "b" * 32) == ["cluster secret reloaded"]
        assert file.secret.ids[0] == before[0] and len(file.secret.ids) == 2
        assert await file.change("short") == ["cluster secret not reloaded"]
        assert await file.change("b" * 32, 0o644) == ["cluster secret not reloaded"]
        assert len(file.secret.ids) == 2
        assert await file.change("b" * 32) == ["cluster secret reloaded"]
        assert file.secret.ids != before and len(file.secret.ids) == 1
        assert await file.change("b" * 32 + "\n") == []
