"""`up --secure` and `tailrace cert`: the private authority of a cluster, its certificates, its first user."""

from __future__ import annotations

from importlib.util import find_spec

from tailrace.config import ConfigError


def check_library() -> None:
    """Raises ConfigError where certificates cannot be made."""
    if find_spec("cryptography") is None:
        raise ConfigError(
            "Certificates need the package `cryptography`, which is not installed: `pip install cryptography`. "
            "docs/tls.md shows how OpenSSL makes them."
        )
