"""The groups of a context."""

from __future__ import annotations

import ssl

from tailrace.net.tls.groups import limit_groups


def test_this_python_and_its_openssl_take_both() -> None:
    """Where they do not, P-256 is alone; CI's versions of Python all do."""
    assert limit_groups(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
