"""The table of every config: Apache Kafka 4.3.1's, split by area, and our own."""

from __future__ import annotations

from tailrace.config.definition import ConfigDef, table
from tailrace.config.definitions import (
    controller,
    group,
    group_resource,
    log,
    network,
    ours,
    remote,
    replication,
    sasl,
    server,
    share,
    streams,
    tls,
    topic,
    transaction,
)

DEFINITIONS: dict[str, ConfigDef] = table(
    server.ROWS,
    controller.ROWS,
    network.ROWS,
    log.ROWS,
    replication.ROWS,
    group.ROWS,
    transaction.ROWS,
    share.ROWS,
    streams.ROWS,
    remote.ROWS,
    tls.ROWS,
    sasl.ROWS,
    ours.ROWS,
)
"""What a server may be configured with: Kafka's broker configs and ours."""

DYNAMIC_DEFINITIONS: dict[str, ConfigDef] = table(replication.DYNAMIC_ROWS)
"""Broker configs that exist only dynamically."""

TOPIC_DEFINITIONS: dict[str, ConfigDef] = table(topic.ROWS)
GROUP_DEFINITIONS: dict[str, ConfigDef] = table(group_resource.GROUP_ROWS)
CLIENT_METRICS_DEFINITIONS: dict[str, ConfigDef] = table(group_resource.CLIENT_METRICS_ROWS)
