"""The topics that ask to be tables: those whose config `tailrace.table` is `delta`."""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from operator import itemgetter
from typing import Final
from uuid import UUID

from tailrace.clock import Clock
from tailrace.errors import ErrorCode
from tailrace.reading.reader import AskNode
from tailrace.tables.fields.field import JSON
from tailrace.tables.worker import TableTopic
from tailrace.wire.limits import pages
from tailrace.wire.messages import DescribeConfigsRequest, MetadataRequest

_METADATA_VERSION: Final = 12
_DESCRIBE_CONFIGS_VERSION: Final = 4
_TOPIC_RESOURCE: Final = 2
_FORMAT: Final = "tailrace.table"
_INTERVAL: Final = "tailrace.table.commit.interval.ms"
_VALUE_FORMAT: Final = "tailrace.table.value.format"
_VALUE_SCHEMA: Final = "tailrace.table.value.schema"
_CONFIGS_MS: Final = 60_000.0
_KEYS: Final = [_FORMAT, _INTERVAL, _VALUE_FORMAT, _VALUE_SCHEMA]
DELTA: Final = "delta"
Configs = dict[str, str]


class TopicFinder:
    """Looks for topics again and again. The configs of a topic are asked for when it is new, and then once a minute."""

    def __init__(self, ask: AskNode, clock: Clock, only: Collection[str] = ()) -> None:
        """only: the names of the topics that are looked at; empty: all that the client may see."""
        self._ask = ask
        self._clock = clock
        self._only = only
        self._known: dict[tuple[str, UUID], Configs] = {}
        self._due_ms = -inf  # when the configs of all topics are asked for

    async def find(self) -> list[TableTopic]:
        """By name. Raises ApiError, Disconnected or TimeoutError.

        A topic whose configs the client may not see is left out.
        """
        answer = await self._ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), _METADATA_VERSION)
        seen = {
            (row.name, row.topic_id): len(row.partitions)
            for row in answer.topics
            if not row.error_code and not row.is_internal and (not self._only or row.name in self._only)
        }
        now_ms = self._clock.monotonic_ms()
        known = {} if now_ms >= self._due_ms else {topic: self._known[topic] for topic in seen if topic in self._known}
        configs = await _configs(self._ask, sorted(name for name, topic_id in seen if (name, topic_id) not in known))
        if not known:
            self._due_ms = now_ms + _CONFIGS_MS
        self._known = known | {topic: configs[topic[0]] for topic in seen if topic[0] in configs}
        return [
            TableTopic(
                name,
                topic_id,
                seen[name, topic_id],
                int(found[_INTERVAL]),
                found.get(_VALUE_FORMAT, JSON),  # a cluster of an older release has neither
                found.get(_VALUE_SCHEMA) or "",
            )
            for (name, topic_id), found in sorted(self._known.items(), key=itemgetter(0))
            if found.get(_FORMAT) == DELTA
        ]


async def _configs(ask: AskNode, names: list[str]) -> dict[str, Configs]:
    """Empty where the client may not see them. A topic that the node does not have, or not yet, is left out."""
    found: dict[str, Configs] = {}
    for page in pages(names):
        row = DescribeConfigsRequest.DescribeConfigsResource
        rows = [row(resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=_KEYS) for name in page]
        request = DescribeConfigsRequest(resources=rows, include_synonyms=False, include_documentation=False)
        answer = await ask(request, _DESCRIBE_CONFIGS_VERSION)
        for result in answer.results:
            if result.error_code in (0, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
                found[result.resource_name] = {config.name: config.value for config in result.configs or ()}
    return found
