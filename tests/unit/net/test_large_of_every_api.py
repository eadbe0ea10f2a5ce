"""No role decodes, refuses or encodes very many rows on its event loop: every API, and every place that could."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog

from support.largest import Largest, all_largest
from tailrace.errors import ApiError, ErrorCode
from tailrace.net import large
from tailrace.net.address import Address
from tailrace.net.client import Client
from tailrace.net.context import Context
from tailrace.net.dispatch import Service
from tailrace.net.large import LARGE_BYTES
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.server import serve
from tailrace.wire import codec
from tailrace.wire.apis import APIS
from tailrace.wire.connection import ServerConnection

ROOT = Path(__file__).parents[3]
ROWS = 1_100  # of four bytes or more each
BYTES = 4_500  # rows of a byte each: most of them are the same

# What works on a message where it stands, and why it is never large there. Everybody else asks net/large.py.
DIRECT = {
    "libs/tailrace/net/authentication/client.py": "the login of a socket of the gateway",
    "libs/tailrace/net/client.py": "questions of our own; their answers it gives to net/large.py",
    "libs/tailrace/net/connection.py": "below LARGE_BYTES, and the preamble",
    "libs/tailrace/net/dispatch.py": "ApiVersions, which has a row for each API",
    "libs/tailrace/net/large.py": "the place itself",
    "services/broker/tailrace_broker/produce/answers.py": "an answer to what was taken in one go before",
    "services/coordinator/tailrace_coordinator/shards/partition_log.py": "the answer to a Produce of one partition",
    "services/gateway/tailrace_gateway/forward/broker_away.py": "inside over_rows",
    "services/gateway/tailrace_gateway/forward/coordinator.py": "a refusal that has no rows",
    "services/gateway/tailrace_gateway/rest/admin.py": "a question about one partition",
    "services/gateway/tailrace_gateway/answering.py": "the preamble and ApiVersions",
    "services/gateway/tailrace_gateway/clients/handover.py": "a question about one connection",
    "services/gateway/tailrace_gateway/relay/node.py": "the preamble, and a Produce answer of at most 32 KiB",
}


async def refusing(request: Any, context: Context, role: None) -> Any:
    raise ApiError(ErrorCode.POLICY_VIOLATION, "no")


class Watched:
    """The codec's functions, with the threads that call them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[str, str]] = []
        self.encoded: list[memoryview] = []
        self.left: list[Any] = []  # buffers that were given to the transport
        for module, name in (
            (codec, "decode_request"),
            (codec, "encode_response"),
            (codec, "encode_large_response"),
            (large, "refuse"),
        ):
            monkeypatch.setattr(module, name, partial(self._call, name, getattr(module, name)))

    def _call(self, name: str, really: Callable[..., Any], *given: Any) -> Any:
        self.seen.append((name, threading.current_thread().name.partition("_")[0]))
        made = really(*given)
        if name == "encode_large_response":
            self.encoded.append(made)
        return made

    def note_what_leaves(self, monkeypatch: pytest.MonkeyPatch) -> None:
        take_ready = ServerConnection.take_ready

        def taken(core: ServerConnection) -> list[Any]:
            out = take_ready(core)
            self.left += out
            return out

        monkeypatch.setattr(ServerConnection, "take_ready", taken)


@pytest.mark.parametrize("largest", list(all_largest()), ids=lambda one: one.name)
async def test_a_request_of_many_rows_is_decoded_and_refused_by_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, largest: Largest
) -> None:
    values = largest.path == "resource_types"
    frame = largest.with_rows(BYTES if values else ROWS)
    assert len(frame) > LARGE_BYTES
    watched = Watched(monkeypatch)
    watched.note_what_leaves(monkeypatch)
    handlers = dict.fromkeys(APIS, refusing)
    service = Service(role=None, handlers=handlers, apis=APIS, log=structlog.get_logger(), memory=RoleMemory())
    server = await serve([Address(str(tmp_path / "s"), -1)], service)
    client = Client(server.addresses[0], "large")
    try:
        await client.ask_raw(frame, timeout_ms=60_000)
    finally:
        await client.close()
        await server.close()
    decoded, refused, encoded = watched.seen
    assert decoded == ("decode_request", "codec")
    assert refused == ("refuse", "MainThread" if values else "codec")
    if encoded != ("encode_response", "MainThread"):  # else the answer has few rows
        assert encoded == ("encode_large_response", "codec")
        (answer,) = watched.encoded
        assert any(buffer is answer for buffer in watched.left)  # nobody has joined or copied it


def test_nobody_else_works_on_messages_on_the_event_loop() -> None:
    found = set()
    for folder in ("libs/tailrace/net", "services"):
        for path in (ROOT / folder).rglob("*.py"):
            if re.search(r"\bcodec\.(decode|encode)_(large_)?(request|response)\(", path.read_text()):
                found.add(path.relative_to(ROOT).as_posix())
    assert found == DIRECT.keys()


def test_decisions_about_what_clients_ask_are_a_threads() -> None:
    """Controller.run is for what roles say of one service."""
    short = {"allocate_producer_ids", "register_service", "service_heartbeat"}
    folder = ROOT / "services/controller/tailrace_controller/handlers"
    assert {path.stem for path in folder.glob("*.py") if "controller.run(" in path.read_text()} == short
