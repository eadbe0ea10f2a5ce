"""Cipher suites by the names of Kafka's configs (IANA's, as Java has them), in OpenSSL's names. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

# Of TLS 1.3, which Python's OpenSSL offers together or not at all.
SUITES_OF_1_3: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
_SHAPE: Final = re.compile(r"TLS_(?P<exchange>[A-Z_]+)_WITH_(?P<cipher>[A-Z0-9_]+)")


def openssl_name(suite: str) -> str:
    """`ECDHE-RSA-AES256-GCM-SHA384` for TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384; what has no such form stays as it is."""
    shape = _SHAPE.fullmatch(suite)
    if shape is None:
        return suite
    cipher = re.sub(r"AES_(\d+)", r"AES\1", shape["cipher"])
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305").replace("_CBC", "").replace("_", "-")
    exchange = shape["exchange"].replace("_", "-")
    return cipher if exchange == "RSA" else f"{exchange}-{cipher}"


def older_suites(suites: Sequence[str]) -> str:
    """OpenSSL's list of those that are for TLS 1.2."""
    return ":".join(openssl_name(suite) for suite in suites if suite not in SUITES_OF_1_3)


def of_1_3(suites: Iterable[str]) -> list[str]:
    """Those that are for TLS 1.3."""
    return [suite for suite in suites if suite in SUITES_OF_1_3]
