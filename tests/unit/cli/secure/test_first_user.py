"""The first user: what the controller is asked, and what is left on the disk."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tailrace.access.scram import ScramMechanism, salted
from tailrace.cli.secure.first_user import FirstUserRefused, password_file, read_password, set_password
from tailrace.errors import ErrorCode
from tailrace.net.address import Address
from unit.cli.secure.conftest import Controller


async def test_a_random_password_is_set_and_kept_for_its_owner(
    controller: Controller, address: Address, tmp_path: Path
) -> None:
    password = await set_password(tmp_path, [address])
    assert len(password) == 32 and read_password(tmp_path) == password
    assert stat.S_IMODE(password_file(tmp_path).stat().st_mode) == 0o600
    (asked,) = controller.asked
    assert (asked.name, asked.mechanism) == ("admin", ScramMechanism.SCRAM_SHA_512)
    assert asked.iterations == 4096, "as `user create` and kafka-configs.sh: else a challenge tells the first user"
    assert asked.salted_password == salted(ScramMechanism.SCRAM_SHA_512, password, asked.salt, asked.iterations)
    assert await set_password(tmp_path, [address]) != password


async def test_a_controller_that_is_not_active_is_passed_over(
    controller: Controller, address: Address, tmp_path: Path
) -> None:
    away = Address(str(tmp_path / "controller-1.sock"), -1)
    await set_password(tmp_path, [away, address])
    assert len(controller.asked) == 1


async def test_nothing_is_kept_of_a_password_that_was_not_set(
    controller: Controller, address: Address, tmp_path: Path
) -> None:
    controller.code = ErrorCode.NOT_CONTROLLER
    with pytest.raises(FirstUserRefused, match="NOT_CONTROLLER"):
        await set_password(tmp_path, [address])
    with pytest.raises(FirstUserRefused, match="no controller runs here"):
        await set_password(tmp_path, [])
    assert read_password(tmp_path) is None
