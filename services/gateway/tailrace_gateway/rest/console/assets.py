"""Files of pages: read once, compressed once, with the hash of their content as their ETag; those of the console."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from fastapi import FastAPI, Request, Response

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_INLINE = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)
_SMALL_BYTES: Final = 512
_SELF: Final = "'self'"


class Asset(NamedTuple):
    """One file as it is sent."""

    content: bytes
    compressed: bytes | None
    headers: dict[str, str]


def policy(inline_script: bytes = b"", images: str = _SELF) -> str:
    """The Content-Security-Policy of a page; the one inline script that it may have is named by its hash."""
    allowed = "'self'"
    if inline_script:
        allowed += f" 'sha256-{base64.b64encode(hashlib.sha256(inline_script).digest()).decode()}'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'self'; img-src {images}; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )


def asset_of(name: str, content: bytes, images: str = _SELF) -> Asset:
    """A file by its name and content; images: where a page may have them from."""
    inline = _INLINE.search(content) if name.endswith(".html") else None
    digest = hashlib.sha256(content).hexdigest()[:32]
    headers = {
        "Content-Type": _TYPES["." + name.rpartition(".")[2]],
        "Content-Security-Policy": policy(inline[1] if inline else b"", images),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
        "ETag": f'"{digest}"',
        "Vary": "Accept-Encoding",
    }
    compressed = gzip.compress(content, mtime=0) if len(content) > _SMALL_BYTES else None
    return Asset(content, compressed, headers)


def answer(asset: Asset, if_none_match: str, accept_encoding: str) -> Response:
    """The file, or 304 to a client that has it."""
    if asset.headers["ETag"] in {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}:
        return Response(status_code=304, headers=asset.headers)
    if asset.compressed is not None and "gzip" in accept_encoding:
        return Response(asset.compressed, headers={**asset.headers, "Content-Encoding": "gzip"})
    return Response(asset.content, headers=asset.headers)


def _below(folder: Traversable, path: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _below(entry, f"{path}{entry.name}/")
        elif "." + entry.name.rpartition(".")[2] in _TYPES:
            yield path + entry.name, entry


def install(app: FastAPI) -> None:
    """Serves the files below /static/console/, and the console itself at /."""
    for name, file in _below(files("tailrace_gateway.rest.console").joinpath("static")):
        asset = asset_of(name, file.read_bytes())
        add(app, "/" if name == "index.html" else f"/static/console/{name}", asset)


def add(app: FastAPI, path: str, asset: Asset) -> None:
    """Serves a file at a path."""

    async def serve(request: Request) -> Response:
        headers = request.headers
        return answer(asset, headers.get("if-none-match", ""), headers.get("accept-encoding", ""))

    app.add_api_route(path, serve, include_in_schema=False)
