"""Quotas and their use: the image, AlterClientQuotas v1 (KIP-546), and DescribeQuotaUsage of the quota service.

An entity's id in a path is its parts by type, `client-id=app,user=`: a name is percent-encoded, an empty one is the
default, since no name is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from tailrace.errors import ErrorCode
from tailrace.quota.entity import QuotaEntity
from tailrace.wire.apis import ApiKey
from tailrace.wire.messages import AlterClientQuotasRequest, DescribeQuotaUsageRequest
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.errors import check, not_found, translate

USAGE_MAX = 1_000


def id_of(entity: QuotaEntity) -> str:
    """The entity in a path."""
    return ",".join(f"{kind}={quote(name or '', safe='')}" for kind, name in sorted(entity))


def entity_from(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """The entity of (type, name) pairs in any order; 400 where a type comes twice: one of two names would be lost."""
    found: dict[str, str | None] = {}
    for kind, name in parts:
        if kind in found:
            raise translate(ErrorCode.INVALID_REQUEST, f"An entity names its {kind} once, not several times.")
        found[kind] = name
    return tuple(sorted(found.items(), key=lambda part: part[0]))  # as quota_key: the default has no name to compare


def entity_of(entity_id: str) -> QuotaEntity:
    """The entity of a path; 404 for what is none, 400 for one that names a type twice."""
    parts = [part.partition("=") for part in entity_id.split(",")]
    if not all(kind and equals for kind, equals, _ in parts):
        raise unknown(entity_id)
    return entity_from((kind, unquote(name) or None) for kind, _, name in parts)


def unknown(entity_id: str) -> Exception:
    """404."""
    return not_found(f"Quotas of {entity_id} cannot be found.")


def all_of(backend: AdminBackend) -> Mapping[QuotaEntity, Mapping[str, float]]:
    """The quotas that are set. Raises CLUSTER_AUTHORIZATION_FAILED as DescribeClientQuotas does."""
    return backend.cluster_image(ApiKey.DESCRIBE_CLIENT_QUOTAS).quotas


def values_of(backend: AdminBackend, entity: QuotaEntity) -> Mapping[str, float]:
    """The quotas of exactly this entity, or 404."""
    values = all_of(backend).get(entity)
    if not values:
        raise unknown(id_of(entity))
    return values


async def alter(
    backend: AdminBackend,
    changes: Sequence[tuple[QuotaEntity, Mapping[str, float | None]]],
    validate_only: bool = False,
) -> None:
    """Sets quotas of entities, and removes those that are None; the first refusal is raised, others may be done."""
    entry = AlterClientQuotasRequest.EntryData
    entries = [
        entry(
            entity=[entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            ops=[
                entry.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                for key, value in values.items()
            ],
        )
        for entity, values in changes
    ]
    answer = await backend.ask_controller(AlterClientQuotasRequest(entries=entries, validate_only=validate_only))
    for row in answer.entries:
        check(row.error_code, row.error_message)


async def remove(backend: AdminBackend, entity: QuotaEntity, name: str) -> None:
    """Removes one quota; 404 where the entity has none of that name."""
    if name not in values_of(backend, entity):
        raise not_found(f"Quota {name} of {id_of(entity)} cannot be found.")
    await alter(backend, [(entity, {name: None})])


async def usage(backend: AdminBackend) -> list[Any]:
    """The rows of DescribeQuotaUsage, the largest share of a limit first."""
    answer = await backend.ask_quota(DescribeQuotaUsageRequest(max_entries=USAGE_MAX))
    check(answer.error_code)
    return list(answer.entries)
