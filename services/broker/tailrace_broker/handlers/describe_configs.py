"""DescribeConfigs v1-4 of this broker: every config with its source and synonyms. v3: documentation and type (KIP-569).

Topics and the cluster-wide defaults are the controller's to answer; a broker knows what it was started with, and the
levels of its loggers (KIP-412). advertised.listeners is what this client is told of this broker: the gateway's address.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from tailrace.config import Config, describe, loggers
from tailrace.errors import ErrorCode
from tailrace.kafka.resources import ALL_BROKERS, ConfigResource, ConfigSource
from tailrace.metadata import names
from tailrace.net.context import Context
from tailrace.net.identity import Identity
from tailrace.net.listeners.listener import listeners_of
from tailrace.net.metadata.follower import MetadataFollower
from tailrace.runtime import logs
from tailrace.wire.messages import DescribeConfigsRequest, DescribeConfigsResponse
from tailrace_broker.dynamic_config import DynamicBrokerConfig

_Result = DescribeConfigsResponse.DescribeConfigsResult
_Entry = _Result.DescribeConfigsResourceResult
_Synonym = _Entry.DescribeConfigsSynonym
_ADVERTISED_LISTENERS = "advertised.listeners"
_CATCH_UP_MS = 500.0


async def handle(
    request: DescribeConfigsRequest, context: Context, config: DynamicBrokerConfig, follower: MetadataFollower
) -> DescribeConfigsResponse:
    """One result per asked resource."""
    await _up_to_date(request, follower)
    identity, node_id = context.connection.session.identity, config.static.node_id

    @cache
    def rows(kind: int) -> list[_Entry]:  # whoever asks more than once gets the same ones
        if kind == ConfigResource.BROKER_LOGGER:
            entries = loggers.described(logs.log_levels())
        else:
            image, name = follower.image, str(node_id)
            entries = describe.broker(
                config.static,
                image.config(ConfigResource.BROKER, ALL_BROKERS),
                image.config(ConfigResource.BROKER, name),
            )
            entries = [_advertised(entry, config.current, identity) for entry in entries]
        synonyms, documentation = (
            request.include_synonyms,
            request.include_documentation or kind == ConfigResource.BROKER_LOGGER,
        )
        return [wire_entry(entry, synonyms=synonyms, documentation=documentation) for entry in entries]

    results = [_describe(asked, node_id, rows) for asked in request.resources]
    return DescribeConfigsResponse(results=results)


async def _up_to_date(request: DescribeConfigsRequest, follower: MetadataFollower) -> None:
    """Whoever altered a config of this broker, at the controller, reads what was written."""
    kinds = {asked.resource_type for asked in request.resources}
    if not follower.stale and ConfigResource.BROKER in kinds:
        await follower.catch_up(_CATCH_UP_MS)


def _advertised(entry: describe.ConfigEntry, config: Config, identity: Identity) -> describe.ConfigEntry:
    """Where clients come by the gateway, its address for this broker, as if it stood in the broker's own file."""
    if entry.name != _ADVERTISED_LISTENERS or not identity.advertised_host:
        return entry
    if config.gateway_advertise == "brokers":
        return entry
    value = f"{_listener_name(config, identity)}://{identity.endpoint_of(config.node_id)}"
    source = ConfigSource.STATIC_BROKER_CONFIG
    synonym = describe.SynonymEntry(entry.name, value, source)
    return replace(entry, value=value, source=source, synonyms=(synonym,))


def _listener_name(config: Config, identity: Identity) -> str:
    """The listener that the client came by, as far as its port says which."""
    listeners = listeners_of(config)
    ports = {one.advertised_port or one.port: one.name for one in listeners}
    return ports.get(identity.base_port, listeners[0].name)


def _describe(
    asked: DescribeConfigsRequest.DescribeConfigsResource, node_id: int, rows: Callable[[int], list[_Entry]]
) -> _Result:
    kind, name = asked.resource_type, asked.resource_name
    refusal, configs = _refusal(kind, name, node_id), []
    if refusal is None:
        wanted = set(asked.configuration_keys or ())  # none named is all, as null is
        configs = [row for row in rows(kind) if not wanted or row.name in wanted]
    return _Result(
        error_code=int(ErrorCode.NONE if refusal is None else ErrorCode.INVALID_REQUEST),
        error_message=refusal or "",
        resource_type=kind,
        resource_name=name,
        configs=configs,
    )


def _refusal(kind: int, name: str, node_id: int) -> str | None:
    if kind not in (ConfigResource.BROKER, ConfigResource.BROKER_LOGGER):
        return f"a broker describes broker configs, not resource type {kind}"
    if not name:
        return "Broker id must not be empty"
    if (number := names.broker_number(name)) is None:
        return f"Broker id must be an integer, but it is: {name}"
    if number == node_id:
        return None
    if kind == ConfigResource.BROKER_LOGGER:
        return f"Unexpected broker id, expected {node_id} but received {name}"
    return f"Unexpected broker id, expected {node_id} or empty string, but received {name}"


def wire_entry(entry: describe.ConfigEntry, *, synonyms: bool, documentation: bool) -> _Entry:
    """One config as the response carries it."""
    return _Entry(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.is_sensitive,
        synonyms=[_Synonym(name=s.name, value=s.value, source=int(s.source)) for s in entry.synonyms]
        if synonyms
        else [],
        config_type=entry.type,
        documentation=entry.documentation if documentation else None,
    )
