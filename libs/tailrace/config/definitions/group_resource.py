"""Configs of groups (KIP-848, KIP-932) and of client metrics subscriptions (KIP-714)."""

from __future__ import annotations

from tailrace.config.definition import ConfigDef, OneOf, Scope
from tailrace.config.definitions.row import (
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    LIST,
    MEDIUM,
    STRING,
    at_least,
    group,
)

_SESSION = "How long a member of this group may be unheard before it is removed."
_HEARTBEAT = "How often members of this group are told to send heartbeats."
_ASSIGNMENT = "Shortest time between two assignments of this group."

GROUP_ROWS = (
    group("consumer.session.timeout.ms", INT, 45_000, at_least(1), _SESSION, "group.consumer.session.timeout.ms"),
    group("consumer.heartbeat.interval.ms", INT, 5000, at_least(1), _HEARTBEAT, "group.consumer.heartbeat.interval.ms"),
    group(
        "consumer.assignment.interval.ms", INT, 1000, at_least(0), _ASSIGNMENT, "group.consumer.assignment.interval.ms"
    ),
    group("share.session.timeout.ms", INT, 45_000, at_least(1), _SESSION, "group.share.session.timeout.ms"),
    group("share.heartbeat.interval.ms", INT, 5000, at_least(1), _HEARTBEAT, "group.share.heartbeat.interval.ms"),
    group("share.assignment.interval.ms", INT, 1000, at_least(0), _ASSIGNMENT, "group.share.assignment.interval.ms"),
    group(
        "share.record.lock.duration.ms",
        INT,
        30_000,
        at_least(1000),
        "How long a record is locked for the share consumer that got it.",
        "group.share.record.lock.duration.ms",
    ),
    group(
        "share.delivery.count.limit",
        INT,
        5,
        at_least(2),
        "How often a record is delivered before it counts as unprocessable.",
        "group.share.delivery.count.limit",
    ),
    group(
        "share.partition.max.record.locks",
        INT,
        2000,
        at_least(100),
        "Most records of one share partition that are locked at a time.",
        "group.share.partition.max.record.locks",
    ),
    group("share.auto.offset.reset", STRING, "latest", None, "Where a share group without offsets starts."),
    group(
        "share.isolation.level",
        STRING,
        "read_uncommitted",
        OneOf(("read_committed", "read_uncommitted")),
        "Whether a share group sees records of open and aborted transactions.",
    ),
    group(
        "share.renew.acknowledge.enable",
        BOOLEAN,
        True,
        None,
        "Whether share consumers may renew the locks of their records.",
    ),
    group("streams.session.timeout.ms", INT, 45_000, at_least(1), _SESSION, "group.streams.session.timeout.ms"),
    group("streams.heartbeat.interval.ms", INT, 5000, at_least(1), _HEARTBEAT, "group.streams.heartbeat.interval.ms"),
    group(
        "streams.assignment.interval.ms", INT, 1000, at_least(0), _ASSIGNMENT, "group.streams.assignment.interval.ms"
    ),
    group(
        "streams.num.standby.replicas",
        INT,
        0,
        at_least(0),
        "Standby replicas of each task of this group.",
        "group.streams.num.standby.replicas",
    ),
    group(
        "streams.initial.rebalance.delay.ms",
        INT,
        3000,
        at_least(0),
        "How long this group waits for members before its first assignment.",
        "group.streams.initial.rebalance.delay.ms",
    ),
)


def _client_metrics(name: str, default: int | tuple[str, ...], doc: str) -> ConfigDef:
    kind = INT if isinstance(default, int) else LIST
    return ConfigDef(name, kind, default, None, MEDIUM, CLUSTER_WIDE, doc, scope=Scope.CLIENT_METRICS)


CLIENT_METRICS_ROWS = (
    _client_metrics("interval.ms", 300_000, "How often clients push their metrics."),
    _client_metrics("match", (), "Which clients push, as selector=pattern."),
    _client_metrics("metrics", (), "Prefixes of the metrics that are pushed; * is all."),
)
