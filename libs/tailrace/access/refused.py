"""The failure of a SASL exchange."""

from __future__ import annotations


class AuthenticationRefused(Exception):
    """The text is what the client is told (SaslAuthenticate's error message)."""
