"""Configs of topics and brokers: DescribeConfigs v4, IncrementalAlterConfigs v1 (KIP-339)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.wire.messages import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from tailrace_gateway.rest.backend import READ_TIMEOUT_MS, AdminBackend
from tailrace_gateway.rest.errors import check
from tailrace_gateway.rest.models import ConfigChange


class Resource(IntEnum):
    """Config resource types."""

    TOPIC = 2
    BROKER = 4


class Source(IntEnum):
    """Where a value comes from (KIP-226)."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


_OPERATIONS = {"SET": 0, "DELETE": 1}


async def describe(
    backend: AdminBackend, resource: Resource, name: str, keys: Sequence[str] | None = None
) -> list[Any]:
    """All configs of a resource (or those named), as DescribeConfigsResourceResult, by name.

    Soon NOT_CONTROLLER where no controller answers: a read leaves nothing in doubt, and may be asked for again.
    """
    wanted = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=int(resource), resource_name=name, configuration_keys=None if keys is None else list(keys)
    )
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=True, include_documentation=False)
    try:
        (result,) = (await backend.ask_controller(request, timeout_ms=READ_TIMEOUT_MS)).results
    except (TimeoutError, ConnectionError):
        raise ApiError(ErrorCode.NOT_CONTROLLER, "No controller answers, and only they tell configs.") from None
    check(result.error_code, result.error_message)
    return sorted(result.configs, key=lambda config: str(config.name))


async def alter(
    backend: AdminBackend,
    resource: Resource,
    name: str,
    changes: Iterable[ConfigChange],
    validate_only: bool = False,
) -> None:
    """Sets and resets configs, all or none."""
    row = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        row.AlterableConfig(name=change.name, config_operation=_OPERATIONS[change.operation], value=change.value)
        for change in changes
    ]
    wanted = row(resource_type=int(resource), resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[wanted], validate_only=validate_only)
    (result,) = (await backend.ask_controller(request)).responses
    check(result.error_code, result.error_message)
