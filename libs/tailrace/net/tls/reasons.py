"""What OpenSSL says of a failure, in words."""

from __future__ import annotations


def said(error: BaseException) -> str:
    """OpenSSL's reason in words, without its places in C files."""
    verified = getattr(error, "verify_message", None)
    reason = getattr(error, "reason", None)
    return str(verified or (reason.replace("_", " ").lower() if reason else error)).rstrip(".")
