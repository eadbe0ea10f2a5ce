"""Tokens of sessions: what is taken, what is not, and when a session ends."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from support.users import SHA_256, SHA_512, credential
from tailrace.access.scram import ScramMechanism
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import UserScramCredentialRecord
from tailrace.net.sasl.credentials import UserCredentials
from tailrace_gateway.rest.access.sessions import ID_BYTES, IDLE_SECONDS, MAX_SECONDS, BrowserSession, BrowserSessions

SECRET = bytes(32)
NOW = 1_700_000_000
SESSION = BrowserSession("alice", NOW, NOW, bytes(range(ID_BYTES)))
Users = dict[str, dict[int, UserScramCredentialRecord]]


@pytest.fixture
def users() -> Users:
    return {
        "alice": {SHA_512: credential("alice", "wonderland")},
        "bob": {SHA_256: credential("bob", "builder", SHA_256)},
    }


def sessions(users: Users, secret: bytes = SECRET) -> BrowserSessions:
    """Those of one gateway."""
    return BrowserSessions(UserCredentials(lambda: MetadataImage(scram=dict(users)), lambda: secret), lambda: secret)


def token_of(users: Users, session: BrowserSession = SESSION) -> str:
    token = sessions(users).token(session)
    assert token is not None
    return token


def test_each_gateway_of_a_cluster_takes_a_token_and_another_cluster_does_not(users: Users) -> None:
    token = token_of(users)
    assert sessions(users).find(token, NOW) == SESSION
    assert sessions(users, b"another" * 5).find(token, NOW) is None
    assert sessions(users).csrf_token(SESSION) == sessions(users).csrf_token(SESSION)
    assert sessions(users).csrf_token(SESSION) != sessions(users, b"another" * 5).csrf_token(SESSION)


def test_no_byte_of_a_token_can_be_changed(users: Users) -> None:
    token = token_of(users)
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    taken = sessions(users)
    for at in range(len(raw)):
        other = bytearray(raw)
        other[at] ^= 1
        assert taken.find(base64.urlsafe_b64encode(other).decode().rstrip("="), NOW) is None, at
    for length in range(len(token)):
        assert taken.find(token[:length], NOW) is None, length


@pytest.mark.parametrize("token", ["", "!", "=", "AAAA", "A" * 100, "A" * 10_000, "é", "\ud800", "_" * 92])
def test_what_is_no_token_is_none(users: Users, token: str) -> None:
    assert sessions(users).find(token, NOW) is None


def test_a_token_for_another_user_is_forged(users: Users) -> None:
    for forged in (replace(SESSION, user="bob"), replace(SESSION, user="nobody"), replace(SESSION, user="")):
        token = sessions({**users, forged.user: users["alice"]}).token(forged)
        assert token is not None and sessions(users).find(token, NOW) is None


def test_a_session_ends_with_the_password_and_with_the_user(users: Users) -> None:
    token = token_of(users)
    assert sessions({**users, "alice": {SHA_512: credential("alice", "looking glass")}}).find(token, NOW) is None
    del users["alice"]
    assert sessions(users).find(token, NOW) is None
    assert sessions(users).token(SESSION) is None


@pytest.mark.parametrize("changed", [SHA_256, SHA_512])
def test_a_session_ends_with_the_password_of_either_mechanism(users: Users, changed: ScramMechanism) -> None:
    """kafka-configs.sh changes one of them."""
    both: dict[int, UserScramCredentialRecord] = {
        one: credential("alice", "wonderland", one) for one in (SHA_256, SHA_512)
    }
    token = token_of({"alice": both})
    assert sessions({"alice": both}).find(token, NOW) == SESSION
    other = {**both, changed: credential("alice", "looking glass", changed)}
    assert sessions({"alice": other}).find(token, NOW) is None
    del both[changed]
    assert sessions({"alice": both}).find(token, NOW) is None


def test_a_session_ends_when_the_clusters_secret_is_changed(users: Users) -> None:
    secrets = [SECRET]
    known = UserCredentials(lambda: MetadataImage(scram=users), lambda: SECRET)
    running = BrowserSessions(known, lambda: secrets[-1])
    token = running.token(SESSION)
    assert token is not None and running.find(token, NOW) == SESSION
    secrets.append(b"another" * 5)
    assert running.find(token, NOW) is None


@pytest.mark.parametrize(
    ("began", "used", "lives"),
    [
        (0, 0, True),
        (-IDLE_SECONDS, -IDLE_SECONDS + 1, True),
        (-IDLE_SECONDS, -IDLE_SECONDS, False),
        (-MAX_SECONDS + 1, 0, True),
        (-MAX_SECONDS, 0, False),
        (60, 60, True),  # of a gateway whose clock is ahead
        (61, 61, False),
        (0, 2**62, False),
    ],
)
def test_a_session_ends_when_it_is_idle_and_at_its_age(users: Users, began: int, used: int, lives: bool) -> None:
    token = token_of(users, replace(SESSION, began=NOW + began, used=NOW + used))
    assert (sessions(users).find(token, NOW) is not None) is lives
