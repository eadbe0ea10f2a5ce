"""Keys and certificates as Kafka's configs have them, in lines or in one."""

from __future__ import annotations

import pytest

from support.certificates import Pair
from tailrace.net.tls.pem import blocks, key_and_chain


@pytest.mark.parametrize("between", ["\n", "\r\n", " ", ""])
def test_a_value_in_one_line_is_read_as_the_file(server: Pair, between: str) -> None:
    text = server.both.read_text()
    assert list(blocks(between.join(text.splitlines()))) == list(blocks(text))


def test_the_key_may_stand_before_or_behind_the_certificates(server: Pair) -> None:
    key, certificate = server.key.read_text(), server.certificate.read_text()
    before, behind = key_and_chain(key + "noise\n" + certificate), key_and_chain(certificate + key)
    assert before == behind and before[0] is not None and len(before[1]) == 1
    assert not before[0].encrypted
    assert key_and_chain("nothing") == (None, [])
