"""What an archive knows of its topics besides their records: `_topics.json` with partitions and configs.

A topic that is restored keeps its records' own timestamps and is not cleaned while old ones come in, whatever it was
configured to: message.timestamp.type=CreateTime, retention without limits, no compaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from tailrace_spark.admin import Topic

FILE = "_topics.json"  # an underscore hides it from readers of the folder
WHILE_RESTORING = {
    "message.timestamp.type": "CreateTime",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
}
PLACEMENT = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})


def to_json(topics: Iterable[Topic]) -> str:
    """The text of the file."""
    return json.dumps({t.name: {"partitions": t.partitions, "configs": t.configs} for t in topics}, indent=1)


def from_json(text: str) -> dict[str, Topic]:
    """The topics by name."""
    return {name: Topic(name, row["partitions"], row["configs"]) for name, row in json.loads(text).items()}


def merged(known: dict[str, Topic], seen: Iterable[Topic]) -> dict[str, Topic]:
    """Topics as they were last seen; those that are gone by now stay known, and none loses partitions."""
    found = dict(known)
    for topic in seen:
        before = found.get(topic.name, topic)
        found[topic.name] = topic._replace(partitions=max(before.partitions, topic.partitions))
    return found


def to_create(topic: Topic) -> Topic:
    """The topic as a restore makes it."""
    kept = {key: value for key, value in topic.configs.items() if key not in PLACEMENT}
    return topic._replace(configs={**kept, **WHILE_RESTORING})


def left_different(topic: Topic) -> dict[str, str]:
    """Configs that the restored topic does not have yet and the archived one had."""
    return {
        key: topic.configs[key]
        for key in WHILE_RESTORING
        if topic.configs.get(key, "") not in ("", WHILE_RESTORING[key])
    }
