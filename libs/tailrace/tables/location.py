"""Where tables lie: a local folder, or a bucket of S3 (`s3://BUCKET/PREFIX`)."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit


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
