"""ConsumerGroupHeartbeat at a coordinator: who may use it, regular expressions, and what a loading shard answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.coordinator import Stage, image
from tailrace.errors import ErrorCode
from tailrace.kafka.features import GROUP_VERSION
from tailrace.wire.messages import ConsumerGroupHeartbeatRequest


def joining(**said: Any) -> ConsumerGroupHeartbeatRequest:
    fields = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"], "topic_partitions": [], **said}
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, **fields)


async def refusal(stage: Stage, request: ConsumerGroupHeartbeatRequest) -> ErrorCode:
    """NONE, or the code of the refusal."""
    answer = await stage.answered(stage.ask(request, 1))
    return answer if isinstance(answer, ErrorCode) else ErrorCode(answer.error_code)


@pytest.mark.parametrize(
    ("level", "protocols", "expected"),
    [
        (1, True, ErrorCode.NONE),
        (0, True, ErrorCode.UNSUPPORTED_VERSION),
        (1, False, ErrorCode.UNSUPPORTED_VERSION),
    ],
    ids=["finalized", "before the upgrade", "not among group.coordinator.rebalance.protocols"],
)
async def test_the_protocol_is_served_from_group_version_1_on(level: int, protocols: bool, expected: ErrorCode) -> None:
    stage = Stage()
    stage.coordinator.serves_consumer_protocol = protocols
    await stage.become(replace(image(), features={GROUP_VERSION: level} if level else {}))
    assert await refusal(stage, joining()) is expected
    await stage.coordinator.close()


async def test_an_expression_that_cannot_be_is_refused_and_another_one_resolved_in_a_thread() -> None:
    stage = Stage()
    await stage.become(replace(image(), features={GROUP_VERSION: 1}))
    assert await refusal(stage, joining(subscribed_topic_regex="(")) is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert await refusal(stage, joining(subscribed_topic_names=None, subscribed_topic_regex="t")) is ErrorCode.NONE
    await stage.coordinator.close()
