"""Where tables lie, a local folder or a bucket of S3 (`s3://BUCKET/PREFIX`), and where their schema registry is."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

REGISTRY_VARIABLE: Final = "TAILRACE_SCHEMA_REGISTRY"
REGISTRY_USER_VARIABLE: Final = "TAILRACE_SCHEMA_REGISTRY_USER_INFO"


def parse_location(text: str) -> str:
    """A folder's absolute path, or the URL without a slash at its end. Raises ValueError.

    A key in the URL is refused: every user of the machine can read a command line. The environment has it (AWS_...).
    """
    if "://" not in text:
        if not text:
            raise ValueError("expected a folder or s3://BUCKET/PREFIX")
        return str(Path(text).expanduser().absolute())
    url = urlsplit(text)
    if url.scheme != "s3" or not url.hostname or url.query or url.fragment:
        raise ValueError(f"{url.scheme}://: expected a folder or s3://BUCKET/PREFIX")
    if "@" in url.netloc:
        raise ValueError(
            "a key in the URL can be read by others: give it in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    return text.rstrip("/")


class RegistryAddress(NamedTuple):
    """A schema registry; user: NAME:PASSWORD, or empty."""

    url: str
    user: str


def parse_registry(text: str, user: str = "") -> RegistryAddress | None:
    """None where the text is empty. Raises ValueError; a password in the URL is refused, as a key in a location."""
    if not text:
        return None
    url = urlsplit(text)
    if "@" in url.netloc:
        raise ValueError(f"a password in the URL can be read by others: give it in {REGISTRY_USER_VARIABLE}")
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
        raise ValueError("expected http://HOST:PORT or https://HOST:PORT of a schema registry")
    return RegistryAddress(text.rstrip("/"), user)
