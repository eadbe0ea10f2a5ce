"""One file per API; this table is all the controller serves."""

from tailrace.net.dispatch import Handler
from tailrace.wire.apis import ApiKey
from tailrace_controller.handlers import (
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    broker_heartbeat,
    broker_registration,
    create_partitions,
    create_topics,
    delete_topics,
    describe_client_quotas,
    describe_configs,
    fetch,
    fetch_snapshot,
    incremental_alter_configs,
    list_config_resources,
    register_service,
    service_heartbeat,
    unregister_broker,
)

HANDLERS: dict[int, Handler] = {
    ApiKey.FETCH: fetch.handle,
    ApiKey.FETCH_SNAPSHOT: fetch_snapshot.handle,
    ApiKey.CREATE_TOPICS: create_topics.handle,
    ApiKey.DELETE_TOPICS: delete_topics.handle,
    ApiKey.CREATE_PARTITIONS: create_partitions.handle,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: describe_client_quotas.handle,
    ApiKey.ALTER_CLIENT_QUOTAS: alter_client_quotas.handle,
    ApiKey.DESCRIBE_CONFIGS: describe_configs.handle,
    ApiKey.ALTER_CONFIGS: alter_configs.handle,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs.handle,
    ApiKey.LIST_CONFIG_RESOURCES: list_config_resources.handle,
    ApiKey.ALTER_PARTITION: alter_partition.handle,
    ApiKey.BROKER_REGISTRATION: broker_registration.handle,
    ApiKey.BROKER_HEARTBEAT: broker_heartbeat.handle,
    ApiKey.UNREGISTER_BROKER: unregister_broker.handle,
    ApiKey.ALLOCATE_PRODUCER_IDS: allocate_producer_ids.handle,
    ApiKey.REGISTER_SERVICE: register_service.handle,
    ApiKey.SERVICE_HEARTBEAT: service_heartbeat.handle,
}
