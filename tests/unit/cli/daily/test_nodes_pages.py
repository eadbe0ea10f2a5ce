"""What the commands ask about very many partitions: no request of theirs is one that a listener refuses."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import pytest

from tailrace.cli.daily.nodes import LATEST, Nodes, RegisteredBroker
from tailrace.metadata.moves import Partition
from tailrace.net.address import Address
from tailrace.wire import codec
from tailrace.wire.apis import INTERNAL_APIS
from tailrace.wire.header import parse_request_header
from tailrace.wire.limits import HIGHEST
from tailrace.wire.messages import ApiMessage

BROKER = RegisteredBroker(0, "localhost", 9092, None, False)
PARTITIONS: dict[Partition, int] = {(f"t{index // 2}", index % 2): 0 for index in range(HIGHEST + 1_000)}
COMMANDS: dict[str, Callable[[Nodes], Any]] = {
    "offsets": lambda cluster: cluster.offsets(PARTITIONS, LATEST),
    "reassign": lambda cluster: cluster.reassign({key: (0, 1, 2) for key in PARTITIONS}),
    "elect": lambda cluster: cluster.elect(PARTITIONS, unclean=False),
    "move_to_log_dir": lambda cluster: cluster.move_to_log_dir(BROKER, "/data", PARTITIONS),
    "sizes": lambda cluster: cluster.sizes(PARTITIONS),
    "producers": lambda cluster: cluster.producers(PARTITIONS),
    "partitions": lambda cluster: cluster.partitions(sorted({name for name, _ in PARTITIONS})),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_very_many_partitions_are_asked_about_in_pages(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    asked: list[Any] = []

    def ask(
        self: Nodes,
        message: ApiMessage,
        version: int | None = None,
        at: Address | None = None,
        *,
        handled: Container[int] = (),
    ) -> Any:
        api = INTERNAL_APIS[message.API_KEY]
        version = api.max_version if version is None else version
        frame = memoryview(codec.encode_request(message, version, 1, "cli"))[4:]
        asked.append(codec.decode_request(api.key, version, frame[parse_request_header(frame).body_offset :]))
        return api.response()

    monkeypatch.setattr(Nodes, "ask", ask)
    monkeypatch.setattr(Nodes, "brokers", lambda self: [BROKER])
    COMMANDS[command](Nodes.__new__(Nodes))
    assert len(asked) > 2
