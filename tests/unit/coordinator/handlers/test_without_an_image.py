"""A coordinator that has no image yet, as after a restart of everything, answers each request as one that loads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.coordinator import Stage
from support.samples import sample_request
from tailrace.errors import ErrorCode
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.wire.apis import INTERNAL_APIS, ApiKey
from tailrace.wire.refuse import refuse
from tailrace_coordinator.handlers import HANDLERS

CODES = {
    (ApiKey.TXN_OFFSET_COMMIT, 0): ErrorCode.COORDINATOR_NOT_AVAILABLE,  # producers know the other one since v2
    (ApiKey.TXN_OFFSET_COMMIT, 1): ErrorCode.COORDINATOR_NOT_AVAILABLE,
    **{(ApiKey.HEARTBEAT, version): ErrorCode.NONE for version in range(5)},  # welcome while a shard is loaded
}
VERSIONS = [
    (key, version)
    for key in HANDLERS
    for version in range(INTERNAL_APIS[key].min_version, INTERNAL_APIS[key].max_version + 1)
]


def error_codes(value: Any) -> Iterator[ErrorCode]:
    """All of an answer."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from [ErrorCode(inner)] if name.endswith("error_code") else error_codes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from error_codes(inner)


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=lambda one: getattr(one, "name", str(one)))
async def test_each_request_is_to_be_asked_again(key: ApiKey, version: int) -> None:
    """Also where the follower has caught up already."""
    request = sample_request(INTERNAL_APIS[key], version)
    if key == ApiKey.WRITE_TXN_MARKERS:
        request.markers[0].topics[0].name = GROUP_METADATA_TOPIC
    if key == ApiKey.LIST_TRANSACTIONS:
        request.state_filters = ["Ongoing"]
    stage = Stage()
    answer = await stage.answered(stage.ask(request, version))
    if isinstance(answer, ErrorCode):
        answer = refuse(request, key, version, answer)
    loading = CODES.get((key, version), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert set(error_codes(answer.to_dict())) | {ErrorCode.NONE} == {loading, ErrorCode.NONE}
