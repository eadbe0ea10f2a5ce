"""What a listener speaks, and its number in a broker's registration."""

from __future__ import annotations

from typing import Final

SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


def encrypts(security_protocol: str) -> bool:
    """Whether it is TLS."""
    return security_protocol in ("SSL", "SASL_SSL")


def logs_in(security_protocol: str) -> bool:
    """Whether clients log in by SASL."""
    return security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")
