"""The topics that ask to be tables: those whose config `tailrace.table` is `delta`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tailrace.reading.reader import AskNode
from tailrace.tables.worker import TableTopic
from tailrace.wire.limits import pages
from tailrace.wire.messages import DescribeConfigsRequest, MetadataRequest

_METADATA_VERSION: Final = 12
_DESCRIBE_CONFIGS_VERSION: Final = 4
_TOPIC_RESOURCE: Final = 2
_FORMAT: Final = "tailrace.table"
_INTERVAL: Final = "tailrace.table.commit.interval.ms"
DELTA: Final = "delta"


async def find_topics(ask: AskNode, only: Collection[str] = ()) -> list[TableTopic]:
    """By name; of all topics that the client may see, or only of these. Raises ApiError, Disconnected or TimeoutError.

    A topic whose configs the client may not see is left out.
    """
    answer = await ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), _METADATA_VERSION)
    seen = {
        row.name: row
        for row in answer.topics
        if not row.error_code and not row.is_internal and (not only or row.name in only)
    }
    found = []
    for name, configs in (await _configs(ask, sorted(seen))).items():
        if configs.get(_FORMAT) == DELTA:
            topic = seen[name]
            found.append(TableTopic(name, topic.topic_id, len(topic.partitions), int(configs[_INTERVAL])))
    return found


async def _configs(ask: AskNode, names: list[str]) -> dict[str, dict[str, str]]:
    found = {}
    for page in pages(names):
        row = DescribeConfigsRequest.DescribeConfigsResource
        rows = [
            row(resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=[_FORMAT, _INTERVAL])
            for name in page
        ]
        request = DescribeConfigsRequest(resources=rows, include_synonyms=False, include_documentation=False)
        answer = await ask(request, _DESCRIBE_CONFIGS_VERSION)
        for result in answer.results:
            if not result.error_code:
                found[result.resource_name] = {config.name: config.value for config in result.configs}
    return found
