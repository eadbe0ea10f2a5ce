"""One look at the cluster's state."""

from __future__ import annotations

from typing import Any

import pytest

from support.authorizers import Recorder
from support.rest_backend import MemoryBackend
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import PartitionImage
from tailrace_gateway.cluster_state import ClusterState
from tailrace_gateway.rest.access.permitted import PermittedAdmin
from tailrace_gateway.rest.console.looks.status import ANSWER_MS, LOOK_MS, NAMED_MAX, StatusLook, log_dirs

NAMED_WITHIN_MS = 6_000


def test_a_silent_role_is_named_within_six_seconds_with_a_stream_that_beats_every_two() -> None:
    assert LOOK_MS + ANSWER_MS < NAMED_WITHIN_MS


async def test_a_count_names_some_partitions_and_a_silent_broker_and_service_are_marked() -> None:
    backend = MemoryBackend(brokers=2)
    backend.with_broken_disk = {0}
    backend.set_partitions("lost", *[PartitionImage((0, 1), (), -1, 0, 0)] * (NAMED_MAX + 1))
    backend.silent, backend.silent_roles = {1}, {("coordinator", 0)}
    rows = (await StatusLook(backend).look()).rows
    assert rows["count:offline"]["count"] == NAMED_MAX + 1
    assert rows["count:offline"]["names"] == [f"lost-{n}" for n in range(NAMED_MAX)]
    assert [rows[f"broker:{n}"]["silent"] for n in (0, 1)] == [False, True]
    assert rows["service:coordinator-0"] == {"role": "coordinator", "id": 0, "silent": True}
    assert rows["offline:0:/broken"] == {"broker_id": 0, "log_dir": "/broken"}
    assert backend.waited_ms == ANSWER_MS
    assert rows["cluster"]["stale"] is False
    backend.silent_roles = {("controller", 0)}
    assert (await StatusLook(backend).look()).rows["cluster"]["stale"] is True


async def test_an_image_that_has_not_changed_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = MemoryBackend()
    counted = 0
    state = backend.state

    async def counting() -> ClusterState:
        nonlocal counted
        counted += 1
        return await state()

    monkeypatch.setattr(backend, "state", counting)
    looking = StatusLook(backend)
    await looking.look()
    await looking.look()
    assert counted == 1
    backend.set_topic("new", 1)
    await looking.look()
    assert counted == 2


async def test_log_dirs_of_a_silent_broker_are_one_row_and_what_is_not_permitted_is_refused() -> None:
    backend = MemoryBackend(brokers=2)
    backend.silent = {1}
    rows = (await log_dirs(backend)).rows
    assert rows["1:"] == {"broker_id": 1, "silent": True}
    assert {key for key in rows if key.startswith("0:")} == {"0:/memory", "0:/broken"}

    async def refused(*_: Any) -> Any:
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    backend.ask_broker = refused  # type: ignore[method-assign,assignment]
    with pytest.raises(ApiError):
        await log_dirs(backend)


async def test_the_partitions_that_leave_a_broker_are_counted() -> None:
    backend = MemoryBackend(brokers=2)
    leaving = PartitionImage((0, 1), (0,), 0, 0, 0, adding_replicas=(1,), removing_replicas=(0,))
    backend.set_partitions("orders", leaving, PartitionImage((0,), (0,), 0, 0, 0))
    rows = (await StatusLook(backend).look()).rows
    assert [rows[f"broker:{node}"]["leaving"] for node in (0, 1)] == [1, 0]
    assert (rows["move:orders-0"]["topic"], rows["move:orders-0"]["partition"]) == ("orders", 0)


async def test_the_partitions_that_leave_a_broker_are_counted_with_those_of_topics_that_are_not_shown() -> None:
    backend = MemoryBackend(brokers=2)
    backend.set_partitions(
        "orders", PartitionImage((0, 1), (0,), 0, 0, 0, adding_replicas=(1,), removing_replicas=(0,))
    )
    authorizer = Recorder(lambda asked: asked[0] == "DESCRIBE" and asked[1] == "CLUSTER")
    rows = (await StatusLook(PermittedAdmin(backend, authorizer, "User:alice", "127.0.0.1")).look()).rows
    assert rows["broker:0"]["leaving"] == 1
