"""The keys of a JWK set: which are taken, and when the set is read again."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from structlog.testing import capture_logs

from support.tokens import Issuer
from support.waiting import HUNG_S
from tailrace.clock import ManualClock
from tailrace.net.sasl.oauthbearer.keys import Pauses, SigningKeys, parse

PAUSES = Pauses(refresh_ms=60_000, first_ms=100, most_ms=10_000)


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer(one="ES256", two="ES256")


class Source:
    """A set that is counted, and can fail."""

    def __init__(self, issuer: Issuer, *kids: str) -> None:
        self.keys = [issuer.jwk(kid) for kid in kids]
        self.reads = 0
        self.fails: Exception | None = None
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(self) -> bytes:
        self.reads += 1
        assert self.go_on.wait(HUNG_S)
        if self.fails is not None:
            raise self.fails
        return json.dumps({"keys": self.keys}).encode()


def opened(source: Callable[[], bytes]) -> tuple[SigningKeys, ManualClock]:
    clock = ManualClock()
    return SigningKeys(source, PAUSES, clock, structlog.get_logger()), clock


async def test_an_unknown_id_reads_the_set_but_not_at_once_again(issuer: Issuer) -> None:
    source = Source(issuer, "one")
    keys, clock = opened(source)
    assert await keys.find("one") is not None and source.reads == 1
    source.keys.append(issuer.jwk("two"))
    for _ in range(100):
        assert await keys.find("two") is None
    assert source.reads == 1
    clock.advance(PAUSES.most_ms)
    assert await keys.find("two") is not None and source.reads == 2
    assert await keys.find("one") is not None and source.reads == 2


async def test_many_that_wait_read_once_and_known_keys_do_not_wait(issuer: Issuer) -> None:
    source = Source(issuer, "one")
    keys, clock = opened(source)
    assert await keys.find("one") is not None
    clock.advance(PAUSES.refresh_ms)
    source.go_on.clear()
    waiting = [asyncio.create_task(keys.find("two")) for _ in range(50)]
    assert await keys.find("one") is not None
    source.go_on.set()
    assert await asyncio.gather(*waiting) == [None] * 50
    assert source.reads == 2


async def test_a_key_that_is_gone_counts_until_the_set_is_read_again(issuer: Issuer) -> None:
    source = Source(issuer, "one", "two")
    keys, clock = opened(source)
    assert await keys.find("two") is not None
    source.keys.pop()
    clock.advance(PAUSES.refresh_ms - 1)
    assert await keys.find("two") is not None and source.reads == 1
    clock.advance(1)
    await keys.find("two")
    await keys.find("unknown")  # waits for what the one before has begun
    assert await keys.find("two") is None and source.reads == 2


@pytest.mark.parametrize("wrong", [OSError("no route to host"), ValueError("no JSON")])
async def test_where_no_set_comes_the_old_keys_count_and_pauses_grow(issuer: Issuer, wrong: Exception) -> None:
    source = Source(issuer, "one")
    keys, clock = opened(source)
    assert await keys.find("one") is not None
    clock.advance(PAUSES.most_ms)
    source.fails = wrong
    with capture_logs() as lines:
        for pause_ms in (100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000):
            reads = source.reads
            assert await keys.find("two") is None and source.reads == reads + 1
            clock.advance(pause_ms - 1)
            assert await keys.find("two") is None and source.reads == reads + 1
            clock.advance(1)
    assert {(line["event"], line["why"]) for line in lines} == {("token keys not read", str(wrong))}
    assert await keys.find("one") is not None
    source.fails = None
    assert await keys.find("one") is not None


async def test_without_an_id_the_only_key_is_meant(issuer: Issuer) -> None:
    assert await opened(Source(issuer, "one"))[0].find(None) is not None
    assert await opened(Source(issuer, "one", "two"))[0].find(None) is None


def test_keys_that_do_not_sign_are_passed_over(issuer: Issuer) -> None:
    small = RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, 1024).public_key(), as_dict=True)
    passed: list[Any] = [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"},
        {**issuer.jwk("one"), "kid": "enc", "use": "enc"},
        {**issuer.jwk("one"), "kid": "hs", "alg": "HS256"},
        {**issuer.jwk("one"), "kid": 5},
        {**issuer.jwk("one"), "kid": "bad", "x": "!"},
        {"kty": "EC", "kid": "empty"},
        {"kty": ["RSA"], "kid": "odd"},
        {**small, "kid": "small"},
        {},
        5,
    ]
    assert set(parse(json.dumps({"keys": [*passed, issuer.jwk("two", use="sig", alg="ES256")]}).encode())) == {"two"}


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"keys": {}}', b"\xff", b"[" * 100_000])
def test_what_is_no_set_is_refused(data: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)):
        parse(data)
