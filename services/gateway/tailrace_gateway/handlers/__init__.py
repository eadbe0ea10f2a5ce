"""What the gateway answers itself, from the metadata image."""

from __future__ import annotations

from tailrace.net.dispatch import Handler
from tailrace.wire.apis import ApiKey
from tailrace_gateway.handlers import (
    api_versions,
    describe_cluster,
    describe_topic_partitions,
    describe_user_scram_credentials,
    find_coordinator,
    metadata,
)

HANDLERS: dict[int, Handler] = {
    ApiKey.API_VERSIONS: api_versions.handle,
    ApiKey.METADATA: metadata.handle,
    ApiKey.FIND_COORDINATOR: find_coordinator.handle,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster.handle,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions.handle,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: describe_user_scram_credentials.handle,
}
