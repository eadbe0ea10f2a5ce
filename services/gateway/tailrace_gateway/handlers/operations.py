"""Authorized operations (KIP-430) of a client that may do everything; numbers are AclOperation's."""

from __future__ import annotations

from tailrace.access.resources import OPERATIONS, ResourceType

TOPIC_OPERATIONS = {int(one) for one in OPERATIONS[ResourceType.TOPIC]}
CLUSTER_OPERATIONS = {int(one) for one in OPERATIONS[ResourceType.CLUSTER]}
TOPIC_OPERATIONS_BITS = sum(1 << operation for operation in TOPIC_OPERATIONS)
