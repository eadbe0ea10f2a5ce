"""Regular expressions of subscriptions (RE2): what they resolve to, and when that is looked up.

They are matched off the event loop, by an action of the shell that then asks for `resolved`. Until then a member has
none of the topics. A group looks again when topics came or went, at most every ten seconds, and now and then besides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tailrace.coordination.consumer_group_records import (
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
)
from tailrace_coordinator.groups.consumer.group import ConsumerGroup
from tailrace_coordinator.groups.decision import LOST_AFTER_MS, GroupDecision
from tailrace_coordinator.groups.modern.topics import metadata_hash

MayDescribe: TypeAlias = Callable[[str], bool]
_LEAST_INTERVAL_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class ResolveExpressions:
    """An action: match these expressions against the names of all topics."""

    group_id: str
    expressions: tuple[str, ...]
    may_describe: MayDescribe | None = field(default=None, compare=False)  # of the names that match; None: all


def resolve_if_due(
    decision: GroupDecision,
    group: ConsumerGroup,
    member: ConsumerGroupMemberMetadata,
    may_describe: MayDescribe | None,
) -> None:
    """Has the group's expressions matched where they are new, or where topics may have come or gone.

    As in Kafka, the rights of the member count whose heartbeat it is.
    """
    own = member.subscribed_topic_regex
    if not own and not group.used_expressions:
        return
    now_ms, resolution = decision.now_ms, group.resolution
    if resolution.started_ms is not None and now_ms - resolution.started_ms < LOST_AFTER_MS:
        return
    used = {*group.used_expressions, *((own,) if own else ())}
    is_due = not used <= group.expressions.keys()
    if not is_due and resolution.ended_ms is not None:
        age_ms = now_ms - resolution.ended_ms
        is_due = resolution.topics_changed and age_ms >= _LEAST_INTERVAL_MS
        is_due = is_due or age_ms >= decision.config.group_consumer_regex_refresh_interval_ms
    if is_due or resolution.ended_ms is None:
        resolution.started_ms = now_ms
        resolution.topics_changed = False
        decision.act(ResolveExpressions(group.group_id, tuple(sorted(used)), may_describe))


def resolved(decision: GroupDecision, group: ConsumerGroup, found: Mapping[str, tuple[str, ...]], version: int) -> None:
    """Takes the topics of expressions that are still in use; with other topics the group is assigned anew."""
    resolution = group.resolution
    resolution.started_ms, resolution.ended_ms = None, decision.now_ms
    changed = False
    for expression, names in found.items():
        before = group.expressions.get(expression)
        if expression not in group.used_expressions or (before is not None and before.topics == names):
            continue
        record = ConsumerGroupRegularExpression(group.group_id, expression, names, version, decision.now_ms)
        decision.append(record)
        changed = changed or names != (() if before is None else before.topics)
    if changed:
        known = {name: record.topics for name, record in group.expressions.items()} | dict(found)
        topics = {topic for name in group.used_expressions for topic in known.get(name, ())}
        group_hash = metadata_hash(topics.union(group.subscribed_topics), decision.image, decision.topic_hashes)
        decision.append(ConsumerGroupMetadata(group.group_id, group.group_epoch + 1, group_hash))
