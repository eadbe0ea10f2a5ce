"""A new password for the first user."""

from __future__ import annotations

import stat
from pathlib import Path

from tailrace.cli.secure.client_files import ClientAccess, write
from tailrace.cli.secure.first_user import read_password, set_password
from tailrace.cli.secure.reset import reset
from tailrace.net.address import Address


async def test_the_files_for_clients_get_the_new_password(address: Address, tmp_path: Path) -> None:
    old = await set_password(tmp_path, [address])
    folder = tmp_path / "clients"
    write(folder, ClientAccess("here:9092", "https://here:8080", folder / "ca.crt", "admin", old), b"certificate")
    changed = await reset(tmp_path, [address])
    new = read_password(tmp_path)
    assert new is not None and new != old
    assert {path.name for path in changed} == {
        "client.properties",
        "curl.conf",
        "kafka_python.py",
        "kcat.conf",
        "librdkafka.properties",
    }
    assert all(new in path.read_text() and old not in path.read_text() for path in changed)
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


async def test_a_cluster_that_was_not_secured_gets_the_user(address: Address, tmp_path: Path) -> None:
    assert await reset(tmp_path, [address]) == []
    assert read_password(tmp_path) is not None
