"""What holds for a consumer group now: its own configs, else those of the cluster, else the coordinator's (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from tailrace.config.definition import ConfigError
from tailrace.config.definitions import DEFINITIONS, GROUP_DEFINITIONS
from tailrace.kafka.resources import ALL_BROKERS, ConfigResource
from tailrace.metadata.image import MetadataImage
from tailrace_coordinator.groups.decision import GroupDecision

# Of the coordinator's keys those that may change while it runs.
_INTERVAL = "group.consumer.assignment.interval.ms"
_OFFLOAD = "group.consumer.assignor.offload.enable"
# In the order of ConsumerTimes.
_OF_A_GROUP = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms")

_Value = TypeVar("_Value", int, bool)


class ConsumerTimes(NamedTuple):
    """How long a member may be unheard, how often it is to be heard, and how often the group is assigned anew."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def consumer_times(decision: GroupDecision, group_id: str) -> ConsumerTimes:
    """Returns those that hold now."""
    config, image = decision.config, decision.image
    own = image.config(ConfigResource.GROUP, group_id)
    interval_ms = _of_the_cluster(image, _INTERVAL, config.group_consumer_assignment_interval_ms)
    times = ConsumerTimes(
        config.group_consumer_session_timeout_ms, config.group_consumer_heartbeat_interval_ms, interval_ms
    )
    if not own:
        return times
    return ConsumerTimes(
        *(
            _parsed(GROUP_DEFINITIONS[name].parse, own[name], default) if name in own else default
            for name, default in zip(_OF_A_GROUP, times, strict=True)
        )
    )


def offloads_assignor(decision: GroupDecision) -> bool:
    """Whether large assignments are computed in a thread."""
    return _of_the_cluster(decision.image, _OFFLOAD, decision.config.group_consumer_assignor_offload_enable)


def _of_the_cluster(image: MetadataImage, name: str, default: _Value) -> _Value:
    dynamic = image.config(ConfigResource.BROKER, ALL_BROKERS).get(name)
    return default if dynamic is None else _parsed(DEFINITIONS[name].parse, dynamic, default)


def _parsed(parse: Callable[[str], object], text: str, default: _Value) -> _Value:
    """A value that a newer version wrote may mean nothing here."""
    try:
        value = parse(text)
    except ConfigError:
        return default
    return value if isinstance(value, type(default)) else default
