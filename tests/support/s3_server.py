"""A bucket of S3 in memory, as far as delta-rs uses it: objects, lists, and writes that refuse what is there.

moto, whose server has all of S3, needs an older python-dateutil than the tests have.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

DATE = "Sat, 28 Nov 2026 12:00:00 GMT"


OBJECTS: dict[str, bytes] = {}
LOCK = threading.Lock()


def _etag(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        key, _ = self._target()
        with LOCK:
            if self.headers.get("If-None-Match") == "*" and key in OBJECTS:
                return self._answer(412)
            OBJECTS[key] = body
        return self._answer(200, headers={"ETag": _etag(body)})

    def do_GET(self) -> None:
        key, query = self._target()
        if not key:
            return self._answer(200, self._list(query.get("prefix", [""])[0], query.get("delimiter", [""])[0]))
        body = OBJECTS.get(key)
        if body is None:
            return self._answer(404)
        headers = {"ETag": _etag(body), "Last-Modified": DATE}
        if (wanted := self.headers.get("Range")) and self.command == "GET":
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start = int(first) if first else max(0, len(body) - int(last))
            end = min(len(body), int(last) + 1) if first and last else len(body)
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(body)}"
            return self._answer(206, body[start:end], headers)
        return self._answer(200, body, headers)

    do_HEAD = do_GET

    def do_DELETE(self) -> None:
        key, _ = self._target()
        OBJECTS.pop(key, None)
        self._answer(204)

    def do_POST(self) -> None:
        """DeleteObjects."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        _, query = self._target()
        if "delete" not in query:
            return self._answer(501)
        keys = [node.text or "" for node in ElementTree.fromstring(body).iter() if node.tag.endswith("Key")]
        for key in keys:
            OBJECTS.pop(key, None)
        rows = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        return self._answer(200, f"<DeleteResult>{rows}</DeleteResult>".encode())

    def _list(self, prefix: str, delimiter: str) -> bytes:
        rows, folders = [], set()
        for key, body in sorted(OBJECTS.items()):
            rest = key.removeprefix(prefix)
            if not key.startswith(prefix):
                continue
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
                continue
            rows.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{len(body)}</Size><ETag>{escape(_etag(body))}</ETag>"
                "<LastModified>2026-11-28T12:00:00.000Z</LastModified></Contents>"
            )
        rows += [f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders)]
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(rows)}</ListBucketResult>".encode()

    def _target(self) -> tuple[str, dict[str, list[str]]]:
        """The key below the bucket, which the path names first."""
        url = urlsplit(self.path)
        return unquote(url.path).lstrip("/").partition("/")[2], parse_qs(url.query, keep_blank_values=True)

    def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def s3_environ() -> Iterator[dict[str, str]]:
    """A server in a process of its own (delta-rs keeps Python from running while it asks), and the way to it."""
    command = (sys.executable, __file__)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield {
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{int(process.stdout.readline())}",
                "AWS_ALLOW_HTTP": "true",
                "AWS_ACCESS_KEY_ID": "tests",
                "AWS_SECRET_ACCESS_KEY": "tests",
                "AWS_REGION": "us-east-1",
            }
        finally:
            process.kill()


def main() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
