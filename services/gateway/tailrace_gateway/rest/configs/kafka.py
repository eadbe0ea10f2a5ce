"""Configs of topics and brokers: DescribeConfigs v4, IncrementalAlterConfigs v1 (KIP-339)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.resources import ConfigResource
from tailrace.wire.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tailrace_gateway.rest.backend import READ_TIMEOUT_MS, AdminBackend
from tailrace_gateway.rest.configs.models import ConfigChange
from tailrace_gateway.rest.errors import check

Described = DescribeConfigsResponse.DescribeConfigsResult
ConfigRow = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult
Altered = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
_Result = TypeVar("_Result", Described, Altered)
_OPERATIONS = {"SET": 0, "DELETE": 1}


async def describe(
    backend: AdminBackend, resource: ConfigResource, name: str, keys: Sequence[str] | None = None
) -> list[ConfigRow]:
    """All configs of a resource (or those named), as DescribeConfigsResourceResult, by name."""
    (result,) = await describe_all(backend, resource, [name], keys)
    check(result.error_code, result.error_message)
    return by_name(result)


async def describe_all(
    backend: AdminBackend, resource: ConfigResource, names: Sequence[str], keys: Sequence[str] | None = None
) -> list[Described]:
    """The DescribeConfigsResult of each resource, in order.

    Soon NOT_CONTROLLER where no controller answers: a read leaves nothing in doubt, and may be asked for again.
    """
    row = DescribeConfigsRequest.DescribeConfigsResource
    named = None if keys is None else list(keys)
    wanted = [row(resource_type=int(resource), resource_name=name, configuration_keys=named) for name in names]
    request = DescribeConfigsRequest(resources=wanted, include_synonyms=True, include_documentation=False)
    try:
        results: list[Described] = (await backend.ask_controller(request, timeout_ms=READ_TIMEOUT_MS)).results
    except (TimeoutError, ConnectionError):
        raise ApiError(ErrorCode.NOT_CONTROLLER, "No controller answers, and only they tell configs.") from None
    return _in_order(results, names)


def _in_order(results: Iterable[_Result], names: Iterable[str]) -> list[_Result]:
    """Those that the user may not ask for come last in an answer."""
    by_resource = {result.resource_name: result for result in results}
    return [by_resource[name] for name in names]


def by_name(result: Described) -> list[ConfigRow]:
    """The configs of a DescribeConfigsResult."""
    return sorted(result.configs, key=lambda config: str(config.name))


async def alter(
    backend: AdminBackend,
    resource: ConfigResource,
    name: str,
    changes: Iterable[ConfigChange],
    validate_only: bool = False,
) -> None:
    """Sets and resets configs, all or none."""
    (result,) = await alter_all(backend, resource, {name: changes}, validate_only)
    check(result.error_code, result.error_message)


async def alter_all(
    backend: AdminBackend,
    resource: ConfigResource,
    changes: Mapping[str, Iterable[ConfigChange]],
    validate_only: bool = False,
) -> list[Altered]:
    """Sets and resets configs of several resources; the AlterConfigsResourceResponse of each, in order."""
    row = IncrementalAlterConfigsRequest.AlterConfigsResource
    wanted = [
        row(
            resource_type=int(resource),
            resource_name=name,
            configs=[
                row.AlterableConfig(name=one.name, config_operation=_OPERATIONS[one.operation], value=one.value)
                for one in rows
            ],
        )
        for name, rows in changes.items()
    ]
    request = IncrementalAlterConfigsRequest(resources=wanted, validate_only=validate_only)
    responses: list[Altered] = (await backend.ask_controller(request)).responses
    return _in_order(responses, changes)
