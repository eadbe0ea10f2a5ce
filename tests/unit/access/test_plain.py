"""The message of PLAIN."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.access.plain import MAX_BYTES, PlainMessage, parse
from tailrace.access.refused import AuthenticationRefused


@pytest.mark.parametrize("message", [b"\0alice\0secret", b"alice\0alice\0secret"])
def test_a_user_and_a_password(message: bytes) -> None:
    assert parse(message) == PlainMessage("alice", "secret")
    assert "secret" not in repr(parse(message))


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"", "expected 3 tokens, got 1"),
        (b"\0alice", "expected 3 tokens, got 2"),
        (b"\0alice\0secret\0", "expected 3 tokens, got 4"),
        (b"\0\0secret", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"bob\0alice\0secret", "different from username"),
        (b"\0alice\0\xff", "not UTF-8"),
        (b"\0alice\0" + b"s" * (MAX_BYTES + 1), "too long"),
        (b"\0alice\0" + b"s" * 10_000, "too long"),
    ],
)
def test_messages_that_are_refused(message: bytes, text: str) -> None:
    with pytest.raises(AuthenticationRefused, match=text):
        parse(message)


@given(st.binary(max_size=100))
def test_no_bytes_raise_anything_else(message: bytes) -> None:
    try:
        parse(message)
    except AuthenticationRefused:
        return
