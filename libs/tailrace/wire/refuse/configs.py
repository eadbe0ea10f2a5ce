"""Refusals of the APIs about configs and quotas."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from tailrace.wire import messages as m

Response = TypeVar("Response")
_AlterConfigs: TypeAlias = m.AlterConfigsRequest | m.IncrementalAlterConfigsRequest


def describe_configs(
    request: m.DescribeConfigsRequest, version: int, code: int, message: str | None
) -> m.DescribeConfigsResponse:
    one = m.DescribeConfigsResponse.DescribeConfigsResult
    return m.DescribeConfigsResponse(
        results=[
            one(
                error_code=code,
                error_message=message,
                resource_type=r.resource_type,
                resource_name=r.resource_name,
                configs=[],
            )
            for r in request.resources
        ]
    )


def alter_configs(
    response: Callable[..., Response], row: Callable[..., object]
) -> Callable[[_AlterConfigs, int, int, str | None], Response]:
    """Builds answers of AlterConfigs and of IncrementalAlterConfigs, which have the same shape."""

    def build(request: _AlterConfigs, version: int, code: int, message: str | None) -> Response:
        return response(
            responses=[
                row(
                    error_code=code,
                    error_message=message,
                    resource_type=r.resource_type,
                    resource_name=r.resource_name,
                )
                for r in request.resources
            ]
        )

    return build


def alter_client_quotas(
    request: m.AlterClientQuotasRequest, version: int, code: int, message: str | None
) -> m.AlterClientQuotasResponse:
    one = m.AlterClientQuotasResponse.EntryData
    entity = one.EntityData
    return m.AlterClientQuotasResponse(
        entries=[
            one(
                error_code=code,
                error_message=message,
                entity=[entity(entity_type=e.entity_type, entity_name=e.entity_name) for e in asked.entity],
            )
            for asked in request.entries
        ]
    )
