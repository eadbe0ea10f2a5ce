"""ConsumerGroupDescribe: what a member's row takes of the room for the answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.coordinator import Stage, image
from tailrace.errors import ErrorCode
from tailrace.kafka.features import GROUP_VERSION
from tailrace.net.limits import answer_budget
from tailrace.wire import messages as m


@pytest.mark.parametrize("field", ["rack_id", "subscribed_topic_regex"])
async def test_every_text_of_a_member_counts(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    await stage.become(replace(image(), features={GROUP_VERSION: 1}))
    for number in range(20):
        said: dict[str, Any] = {"rack_id": None, "subscribed_topic_regex": None, field: "r" * 250}
        joining = m.ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=f"m{number}",
            member_epoch=0,
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
            **said,
        )
        assert (await stage.ask(joining, 1)).error_code == ErrorCode.NONE
    monkeypatch.setattr(answer_budget.AnswerBudget.__init__, "__defaults__", (20 * 250,))
    (group,) = (await stage.ask(m.ConsumerGroupDescribeRequest(group_ids=["g"]), 1)).groups
    assert (group.error_code, group.members) == (ErrorCode.MESSAGE_TOO_LARGE, [])
    await stage.coordinator.close()
