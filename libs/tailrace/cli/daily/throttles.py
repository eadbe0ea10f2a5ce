"""Replication throttles of moves (KIP-73), set and taken away as kafka-reassign-partitions does.

The rate is a config of every broker that gives or takes; which replicas it holds for is a config of each topic. A
throttled replica that is in sync is never slowed down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tailrace.cli.daily.nodes import Nodes
from tailrace.kafka.resources import ConfigResource
from tailrace.metadata.moves import Partition, Replicas, by_topic
from tailrace.wire.limits import pages
from tailrace.wire.messages import IncrementalAlterConfigsRequest

_SET, _DELETE = 0, 1  # operations
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def throttle(
    cluster: Nodes, before: Mapping[Partition, Replicas], plan: Mapping[Partition, Replicas], rate: int
) -> None:
    """Bounds what each broker sends and takes for these moves, in bytes per second."""
    changes: list[tuple[int, str, dict[str, str | None]]] = []
    for topic, moves in by_topic(plan):
        values = throttled(topic, before, moves)
        changes.append((ConfigResource.TOPIC, topic, dict(zip(REPLICAS, values, strict=True))))
    for node in involved(before, plan):
        changes.append((ConfigResource.BROKER, str(node), dict.fromkeys(RATES, str(rate))))
    _alter(cluster, changes)


def unthrottle(cluster: Nodes, topics: Iterable[str], brokers: Iterable[int]) -> None:
    """Takes all of it away."""
    changes: list[tuple[int, str, dict[str, str | None]]] = [
        (ConfigResource.TOPIC, topic, dict.fromkeys(REPLICAS)) for topic in sorted(set(topics))
    ]
    changes += [(ConfigResource.BROKER, str(node), dict.fromkeys(RATES)) for node in sorted(set(brokers))]
    _alter(cluster, changes)


def throttled(
    topic: str, before: Mapping[Partition, Replicas], moves: Iterable[tuple[int, Replicas]]
) -> tuple[str, str]:
    """A topic's two lists, partition:broker: who gives (the replicas from before) and who takes (the new ones)."""
    gives, takes = [], []
    for index, replicas in moves:
        old = before.get((topic, index), ())
        gives += [f"{index}:{node}" for node in old]
        takes += [f"{index}:{node}" for node in replicas if node not in old]
    return ",".join(gives), ",".join(takes)


def involved(before: Mapping[Partition, Replicas], plan: Mapping[Partition, Replicas]) -> list[int]:
    """Every broker that gives or takes."""
    return sorted({node for key, replicas in plan.items() for node in (*replicas, *before.get(key, ()))})


def _alter(cluster: Nodes, changes: Sequence[tuple[int, str, dict[str, str | None]]]) -> None:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    rows = [
        resource(
            resource_type=kind,
            resource_name=name,
            configs=[
                resource.AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
                for key, value in configs.items()
            ],
        )
        for kind, name, configs in changes
    ]
    for some in pages(rows):
        cluster.ask(IncrementalAlterConfigsRequest(resources=list(some), validate_only=False), 1)
