"""Configs of topics and brokers: DescribeConfigs v4, IncrementalAlterConfigs v1 (KIP-339)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.resources import ConfigResource
from tailrace.wire.messages import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from tailrace_gateway.rest.backend import READ_TIMEOUT_MS, AdminBackend
from tailrace_gateway.rest.configs.models import ConfigChange
from tailrace_gateway.rest.errors import check

_OPERATIONS = {"SET": 0, "DELETE": 1}


async def describe(
    backend: AdminBackend, resource: ConfigResource, name: str, keys: Sequence[str] | None = None
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
    resource: ConfigResource,
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
