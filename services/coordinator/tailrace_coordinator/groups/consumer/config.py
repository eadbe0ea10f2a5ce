"""The times of one consumer group: its own configs, else those of the cluster, else the coordinator's (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tailrace.config.definition import ConfigError
from tailrace.config.definitions import DEFINITIONS, GROUP_DEFINITIONS
from tailrace.kafka.resources import ALL_BROKERS, ConfigResource
from tailrace_coordinator.groups.decision import GroupDecision

_INTERVAL = "group.consumer.assignment.interval.ms"  # of these keys the one that may change while brokers run
# In the order of ConsumerTimes.
_OF_A_GROUP = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms")


class ConsumerTimes(NamedTuple):
    """How long a member may be unheard, how often it is to be heard, and how often the group is assigned anew."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def consumer_times(decision: GroupDecision, group_id: str) -> ConsumerTimes:
    """Returns those that hold now."""
    config, image = decision.config, decision.image
    own = image.config(ConfigResource.GROUP, group_id)
    dynamic = image.config(ConfigResource.BROKER, ALL_BROKERS).get(_INTERVAL)
    interval_ms = config.group_consumer_assignment_interval_ms
    if dynamic is not None:
        interval_ms = _parsed(DEFINITIONS[_INTERVAL].parse, dynamic, interval_ms)
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


def _parsed(parse: Callable[[str], object], text: str, default: int) -> int:
    """A value that a newer version wrote may mean nothing here."""
    try:
        value = parse(text)
    except ConfigError:
        return default
    return value if isinstance(value, int) else default
