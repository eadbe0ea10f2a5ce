"""AlterClientQuotas and DescribeClientQuotas (KIP-546), for client ids and the default client id."""

from math import isfinite
from typing import Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage, QuotaKey
from tailrace.metadata.records import ClientQuotaRecord, QuotaEntity
from tailrace.wire.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tailrace_controller.effects import Effects, check_size

CLIENT_ID = "client-id"
KAFKA_ENTITY_TYPES = frozenset({"user", CLIENT_ID, "ip"})
KEYS = frozenset({"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"})
WHOLE = frozenset({"producer_byte_rate", "consumer_byte_rate"})
_LONG_MAX, _EPSILON = float(1 << 63), 1e-6
EXACT, DEFAULT, ANY = range(3)  # match types of a filter


def alter(image: MetadataImage, request: AlterClientQuotasRequest) -> Effects[AlterClientQuotasResponse]:
    """Sets and removes quotas; each entry has its own error (INVALID_REQUEST for what is not built yet)."""
    records: list[ClientQuotaRecord] = []
    entries = []
    for entry in request.entries:
        code, message = ErrorCode.NONE, None
        try:
            records += _alter_one(image, entry)
        except ApiError as refused:
            code, message = refused.code, refused.message
        check_size(records)
        row = AlterClientQuotasResponse.EntryData
        entity = [row.EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity]
        entries.append(row(error_code=code, error_message=message, entity=entity))
    return Effects(AlterClientQuotasResponse(entries=entries), () if request.validate_only else tuple(records))


def _alter_one(image: MetadataImage, entry: Any) -> list[ClientQuotaRecord]:
    entity = tuple(QuotaEntity(part.entity_type, part.entity_name) for part in entry.entity)
    _check_entity(entity)
    present = image.quotas.get(((CLIENT_ID, entity[0].entity_name),), {})
    seen: set[str] = set()
    records = []
    for op in entry.ops:
        if op.key not in KEYS:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {op.key}")
        if op.key in seen:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate quota key {op.key}")
        seen.add(op.key)
        if op.remove:
            if op.key in present:
                records.append(ClientQuotaRecord(entity, op.key, 0.0, remove=True))
            continue
        _check_value(op.key, op.value)
        if present.get(op.key) != op.value:
            records.append(ClientQuotaRecord(entity, op.key, op.value))
    return records


def _check_value(key: str, value: float) -> None:
    """As Apache Kafka; besides, what no client can be held to is no rate: NaN, Infinity, less than a byte a second."""
    if value <= 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Quota {key} must be greater than 0")
    if key in WHOLE and value > _LONG_MAX:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Proposed value for {key} is too large for a LONG.")
    if not isfinite(value):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Quota {key} must be a finite number")
    if key in WHOLE and (value < 1 - _EPSILON or abs(value - int(value + _EPSILON)) > _EPSILON):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{key} cannot be a fractional value.")


def _check_entity(entity: tuple[QuotaEntity, ...]) -> None:
    if not entity:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    for part in entity:
        if part.entity_type not in KAFKA_ENTITY_TYPES:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {part.entity_type}")
        if part.entity_name == "":
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Empty {part.entity_type} not supported")
    if len(entity) > 1 or entity[0].entity_type != CLIENT_ID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Quotas for users and for IP addresses are not supported yet.")


def describe(image: MetadataImage, request: DescribeClientQuotasRequest) -> Effects[DescribeClientQuotasResponse]:
    """Returns the quotas whose entity matches every component; strict also wants nothing else in the entity."""
    try:
        wanted = _filter(request)
    except ApiError as refused:  # entries are null then, not empty
        reply = DescribeClientQuotasResponse(error_code=refused.code, error_message=refused.message, entries=None)
        return Effects(reply)
    row = DescribeClientQuotasResponse.EntryData
    entries = [
        row(
            entity=[row.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            values=[row.ValueData(key=key, value=value) for key, value in sorted(quotas.items())],
        )
        for entity, quotas in image.quotas.items()
        if _matches(entity, wanted, strict=request.strict)
    ]
    return Effects(DescribeClientQuotasResponse(error_code=0, error_message="", entries=entries))


def _filter(request: DescribeClientQuotasRequest) -> dict[str, tuple[int, str | None]]:
    wanted: dict[str, tuple[int, str | None]] = {}
    for component in request.components:
        kind, match_type, name = component.entity_type, component.match_type, component.match
        if not kind:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in wanted:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter.")
        if match_type == EXACT and name is None:
            why = "Request specified MATCH_TYPE_EXACT, but set match string to null."
            raise ApiError(ErrorCode.INVALID_REQUEST, why)
        if match_type in (DEFAULT, ANY) and name is not None:
            which = "DEFAULT" if match_type == DEFAULT else "SPECIFIED"
            why = f"Request specified MATCH_TYPE_{which}, but also specified a match string."
            raise ApiError(ErrorCode.INVALID_REQUEST, why)
        if match_type not in (EXACT, DEFAULT, ANY):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown match type {match_type}")
        if kind not in KAFKA_ENTITY_TYPES:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        wanted[kind] = (match_type, name)
    return wanted


def _matches(entity: QuotaKey, wanted: dict[str, tuple[int, str | None]], *, strict: bool) -> bool:
    parts = dict(entity)
    if strict and set(parts) != set(wanted):
        return False
    for kind, (match_type, name) in wanted.items():
        if kind not in parts:
            return False
        if (match_type == EXACT and parts[kind] != name) or (match_type == DEFAULT and parts[kind] is not None):
            return False
    return True
