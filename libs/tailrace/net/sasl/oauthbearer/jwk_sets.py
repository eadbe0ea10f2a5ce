"""Where a JWK set is: a file, or a URL that is asked over TLS."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from tailrace.config import ConfigError
from tailrace.config.hosts import is_loopback

KEY: Final = "sasl.oauthbearer.jwks.endpoint.url"
MAX_BYTES: Final = 1 << 20
_ANSWER_S: Final = 10.0


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The keys come from where they were said to be."""

    def redirect_request(self, *_: object) -> None:
        return None


def is_file(url: str) -> bool:
    """Whether it is read without asking anything else."""
    return urlsplit(url).scheme == "file"


def reader_of(url: str) -> Callable[[], bytes]:
    """What reads the set, in a thread; it raises OSError. Raises ConfigError for a URL that is not taken."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path:
        return lambda: _read_file(Path(unquote(parts.path)))
    if parts.scheme == "https" and parts.hostname:
        return lambda: _ask(url)
    if parts.scheme == "http" and parts.hostname and is_loopback(parts.hostname):
        return lambda: _ask(url)
    raise ConfigError(f"{KEY}={url}: it is https://HOST/PATH, file:///PATH, or http:// of the loopback.")


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return _bounded(file.read(MAX_BYTES + 1))


def _ask(url: str) -> bytes:
    proxies = [urllib.request.ProxyHandler({})] if is_loopback(urlsplit(url).hostname or "") else []
    opener = urllib.request.build_opener(_NoRedirect(), *proxies)  # a proxy reaches another loopback
    asked = urllib.request.Request(url, headers={"accept": "application/json"})
    try:
        with opener.open(asked, timeout=_ANSWER_S) as said:
            return _bounded(said.read(MAX_BYTES + 1))
    except HTTPException as wrong:
        raise OSError(f"no answer of HTTP: {type(wrong).__name__}") from None


def _bounded(data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise OSError(f"a JWK set has {MAX_BYTES} bytes at most")
    return data
