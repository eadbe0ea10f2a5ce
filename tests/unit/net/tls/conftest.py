"""What a listener is set to."""

from __future__ import annotations

import pytest

from support.certificates import Authority, Pair
from tailrace.net.tls.settings import TlsSettings


@pytest.fixture
def settings(server: Pair, authority: Authority) -> TlsSettings:
    return TlsSettings(
        keystore_location=str(server.both),
        truststore_location=str(authority.certificate),
        client_auth="requested",
    )
