"""Passwords against SCRAM credentials: what is right, what is remembered and for how long."""

from __future__ import annotations

import asyncio
import threading

import pytest

from support.users import SHA_256, SHA_512, credential
from support.waiting import HUNG_S
from tailrace.access.plain import MAX_BYTES
from tailrace.access.scram import ScramMechanism, salted
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import UserScramCredentialRecord
from tailrace.net.sasl.credentials import UserCredentials
from tailrace_gateway.rest.access.passwords import MAX_REMEMBERED, Passwords

Credentials = dict[str, dict[int, UserScramCredentialRecord]]


@pytest.fixture
def users() -> Credentials:
    return {"alice": {SHA_512: credential("alice", "wonderland")}}


@pytest.fixture
def passwords(users: Credentials) -> Passwords:
    return Passwords(UserCredentials(lambda: MetadataImage(scram=users), lambda: bytes(32)), bytes(32))


@pytest.mark.parametrize(
    ("user", "password", "is_right"),
    [
        ("alice", "wonderland", True),
        ("alice", "Wonderland", False),
        ("alice", "", False),
        ("", "wonderland", False),
        ("bob", "wonderland", False),
        ("alice", "w" * (MAX_BYTES + 1), False),
    ],
)
async def test_a_password_is_right_or_not(passwords: Passwords, user: str, password: str, is_right: bool) -> None:
    assert await passwords.are_right(user, password) is is_right


async def test_a_credential_of_either_mechanism_is_one(users: Credentials, passwords: Passwords) -> None:
    users["bob"] = {SHA_256: credential("bob", "builder", SHA_256)}
    assert await passwords.are_right("bob", "builder")
    assert await passwords.are_right("alice", "wonderland")


async def test_a_right_password_is_computed_once_and_a_wrong_one_each_time(passwords: Passwords) -> None:
    for _ in range(3):
        assert await passwords.are_right("alice", "wonderland")
    assert passwords.checked_count == 1
    for _ in range(3):
        assert not await passwords.are_right("alice", "looking glass")
    assert passwords.checked_count == 4
    assert await passwords.are_right("alice", "wonderland")
    assert passwords.checked_count == 4


async def test_an_unknown_user_costs_as_much_as_a_wrong_password(passwords: Passwords) -> None:
    assert not await passwords.are_right("nobody", "wonderland")
    assert passwords.checked_count == 1


async def test_a_new_password_and_a_deleted_user_count_at_once(users: Credentials, passwords: Passwords) -> None:
    assert await passwords.are_right("alice", "wonderland")
    users["alice"] = {SHA_512: credential("alice", "looking glass")}
    assert not await passwords.are_right("alice", "wonderland")
    assert await passwords.are_right("alice", "looking glass")
    del users["alice"]
    assert not await passwords.are_right("alice", "looking glass")


async def test_the_next_check_waits_for_the_thread_of_a_request_that_was_cancelled(
    passwords: Passwords, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, begun, may_end = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def slow(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
        loop.call_soon_threadsafe(begun.set)
        may_end.wait(HUNG_S)
        return salted(mechanism, password, salt, iterations)

    monkeypatch.setattr("tailrace.access.sasl.salted", slow)
    first = asyncio.create_task(passwords.are_right("alice", "wonderland"))
    await begun.wait()
    first.cancel()
    await asyncio.wait([first])
    second = asyncio.create_task(passwords.are_right("alice", "wonderland"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert passwords.checked_count == 1
    may_end.set()
    assert await second and passwords.checked_count == 2


async def test_a_bounded_number_is_remembered(users: Credentials, passwords: Passwords) -> None:
    alike = users["alice"][SHA_512]
    names = [f"user-{number}" for number in range(MAX_REMEMBERED)]
    users |= {name: {SHA_512: alike} for name in names}
    for name in ["alice", *names]:
        await passwords.are_right(name, "wonderland")
    checked = passwords.checked_count
    assert await passwords.are_right(names[1], "wonderland") and passwords.checked_count == checked
    assert await passwords.are_right("alice", "wonderland") and passwords.checked_count == checked + 1


async def test_nothing_that_is_kept_holds_the_password(passwords: Passwords) -> None:
    assert await passwords.are_right("alice", "wonderland")
    assert "wonderland" not in repr(vars(passwords))
