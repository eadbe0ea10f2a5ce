"""The documentation at /docs: Swagger UI, of which every file is in this package, over openapi.json."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from fastapi import FastAPI

from tailrace_gateway.rest.console import assets

_DATA: Final = "'self' data:"  # Swagger UI draws its arrows by the style sheet
_PATHS: Final = {
    "/docs": "docs.html",
    "/static/docs/docs.js": "docs.js",
    "/static/docs/swagger-ui-bundle.js": "vendor/swagger-ui-bundle.js",
    "/static/docs/swagger-ui.css": "vendor/swagger-ui.css",
}


_FOLDER: Final = files("tailrace_gateway.rest.documentation").joinpath("static")
# Read and compressed by the import, which is in a thread: 0.1 s that the gateway's loop does not have.
_ASSETS: Final = {
    path: assets.asset_of(name, _FOLDER.joinpath(name).read_bytes(), images=_DATA) for path, name in _PATHS.items()
}


def install(app: FastAPI) -> None:
    """Serves the page and its files."""
    for path, asset in _ASSETS.items():
        assets.add(app, path, asset)
