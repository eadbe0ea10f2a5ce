"""The preamble: how a service that relays says whose requests follow on a connection between services."""

from __future__ import annotations

from tailrace.net.identity import Identity
from tailrace.wire.messages import PreambleRequest


def preamble_of(identity: Identity) -> PreambleRequest:
    """The request that introduces the client."""
    return PreambleRequest(**identity._asdict())


def identity_of(preamble: PreambleRequest) -> Identity:
    """The client that a preamble introduces."""
    return Identity(**{name: getattr(preamble, name) for name in Identity._fields})
