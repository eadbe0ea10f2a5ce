"""Clients that send hostile requests: they wait for answers, pile requests up, read nothing, or go away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Final

from support.abuse import Body, framed_request
from support.hostile import Hostile
from support.raw import ConnectionClosed, Raw
from tailrace.net.limits.answer_budget import MOST_ANSWER_BYTES

Address = tuple[str, int]

_PATIENCE_SECONDS: Final = 2.0  # a JoinGroup or Fetch may wait for ever: then the client goes
_MOST_AT_ONCE: Final = 20
_GONE: Final = (ConnectionClosed, ConnectionError, TimeoutError)


def send_all(addresses: Sequence[Address], hostile: Hostile, seed: int, count: int) -> Counter[str]:
    """So many requests, one connection after another; what became of them."""
    chance, became = Random(seed), Counter[str]()
    while became.total() < count:
        asked = [hostile.next() for _ in range(chance.choice((1, 1, 3, _MOST_AT_ONCE)))]
        became += _one_client(chance.choice(addresses), asked, reads=chance.random() < 0.8)
    return became


def _one_client(address: Address, asked: Sequence[Body], *, reads: bool) -> Counter[str]:
    became = Counter[str]()
    with Raw(*address, timeout_s=_PATIENCE_SECONDS, client_id="hostile") as client:
        with suppress(*_GONE):
            for number, body in enumerate(asked):
                client.send_bytes(framed_request(body, number, client.client_id))
        with suppress(*_GONE):
            while reads and became.total() < len(asked):
                asked_last = asked[became.total()]
                size = len(client.receive_frame())
                assert size <= MOST_ANSWER_BYTES, f"{size} bytes for {asked_last.key} v{asked_last.version}"
                became["answered"] += 1
    became["not answered"] += len(asked) - became.total()
    return became
