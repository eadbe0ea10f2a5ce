"""A schema registry: what Confluent's documents of GET /schemas/ids/ID, from schemas in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NOT_FOUND = {"error_code": 40403, "message": "Schema not found"}


@contextmanager
def schema_registry(schemas: Mapping[str, object], asked: list[tuple[str, str | None]] | None = None) -> Iterator[str]:
    """Answers with what stands for the path's last part; gives the URL. asked: paths and what authorized them."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if asked is not None:
                asked.append((self.path, self.headers["Authorization"]))
            *folder, number = self.path.split("/")
            known = folder == ["", "schemas", "ids"] and number in schemas
            body = json.dumps(schemas[number] if known else NOT_FOUND).encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *given: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def framed(number: int, value: bytes) -> bytes:
    """A value in Confluent's wire format."""
    return b"\0" + number.to_bytes(4, "big") + value
