"""Where a JWK set may be, and how much of it is read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tailrace.config import ConfigError
from tailrace.net.sasl.oauthbearer.jwk_sets import MAX_BYTES, reader_of


class Issuer(BaseHTTPRequestHandler):
    """Answers by its path."""

    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("location", "/keys")
            self.end_headers()
            return
        self.send_response(200 if self.path in ("/keys", "/large") else 404)
        self.end_headers()
        self.wfile.write(b"{}" if self.path == "/keys" else b" " * (MAX_BYTES + 1))

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Issuer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_file_is_read_each_time(tmp_path: Path) -> None:
    path = tmp_path / "my keys.json"
    read = reader_of(path.as_uri())
    with pytest.raises(OSError):
        read()
    for data in (b"{}", b"[]"):
        path.write_bytes(data)
        assert read() == data
    path.write_bytes(b" " * (MAX_BYTES + 1))
    with pytest.raises(OSError, match="at most"):
        read()


def test_a_url_is_asked(url: str) -> None:
    assert reader_of(f"{url}/keys")() == b"{}"
    for path in ("large", "moved", "none"):
        with pytest.raises(OSError):
            reader_of(f"{url}/{path}")()


def test_the_loopback_is_asked_without_a_proxy(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert reader_of(f"{url}/keys")() == b"{}"


@pytest.mark.parametrize(
    "given", ["", "keys.json", "/keys.json", "ftp://x/y", "http://issuer.example/keys", "https://", "file://host/keys"]
)
def test_other_places_are_refused(given: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url="):
        reader_of(given)
