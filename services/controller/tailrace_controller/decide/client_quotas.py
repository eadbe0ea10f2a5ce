"""AlterClientQuotas and DescribeClientQuotas (KIP-546) for users, client ids, both, and IP addresses (KIP-612)."""

from collections.abc import Mapping
from math import isfinite

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage, QuotaKey
from tailrace.metadata.records import ClientQuotaRecord, QuotaEntity
from tailrace.metadata.replay import quota_key
from tailrace.net.limits.answer_budget import fitting, text_bytes
from tailrace.quota.entity import CLIENT_ID, IP, USER, canonical_ip
from tailrace.wire.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tailrace_controller.decide import record_text
from tailrace_controller.decide.controller_result import ControllerResult, check_size

KAFKA_ENTITY_TYPES = frozenset({USER, CLIENT_ID, IP})
IP_KEYS = frozenset({"connection_creation_rate"})  # KIP-612
KEYS = frozenset({"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"})
LARGEST = {  # of a rate that is whole, and what Kafka calls its type
    "producer_byte_rate": (float(1 << 63), "a LONG"),
    "consumer_byte_rate": (float(1 << 63), "a LONG"),
    "connection_creation_rate": (float((1 << 31) - 1), "an INT"),
}
_EPSILON = 1e-6
_ENTRY_BYTES = 48  # of a part of an entity, short of its name, or of a quota
EXACT, DEFAULT, ANY = range(3)  # match types of a filter


def alter(image: MetadataImage, request: AlterClientQuotasRequest) -> ControllerResult[AlterClientQuotasResponse]:
    """Sets and removes quotas; each entry has its own error (INVALID_REQUEST)."""
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
    return ControllerResult(AlterClientQuotasResponse(entries=entries), () if request.validate_only else tuple(records))


def _alter_one(image: MetadataImage, entry: AlterClientQuotasRequest.EntryData) -> list[ClientQuotaRecord]:
    names: dict[str, str | None] = {}
    for part in entry.entity:
        names[part.entity_type] = part.entity_name
        if part.entity_type not in KAFKA_ENTITY_TYPES:
            break  # it is refused: very many names would make the mapping grow in one long step
    _check_entity(names)
    entity = tuple(QuotaEntity(kind, name) for kind, name in names.items())
    keys = IP_KEYS if IP in names else KEYS
    present = image.quotas.get(quota_key(entity), {})
    seen: set[str] = set()
    records = []
    for op in entry.ops:
        if op.key in seen:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate quota key {op.key}")
        seen.add(op.key)
        if op.remove:
            if op.key in present:
                records.append(ClientQuotaRecord(entity, op.key, 0.0, remove=True))
            continue
        if op.key not in keys:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {op.key}")
        _check_value(op.key, op.value)
        if present.get(op.key) != op.value:
            records.append(ClientQuotaRecord(entity, op.key, op.value))
    record_text.check(records)
    return records


def _check_value(key: str, value: float) -> None:
    """As Apache Kafka; besides, less than a byte a second is no rate of bytes that a client can be held to."""
    most, of_type = LARGEST.get(key, (None, ""))
    if not isfinite(value):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Quota {key} must be a finite number")
    if value <= 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Quota {key} must be greater than 0")
    if most is not None and value > most:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Proposed value for {key} is too large for {of_type}.")
    if most is not None and (value < 1 - _EPSILON or abs(value - int(value + _EPSILON)) > _EPSILON):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{key} cannot be a fractional value.")


def _check_entity(names: dict[str, str | None]) -> None:
    if not names:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    for kind, name in names.items():
        if kind not in KAFKA_ENTITY_TYPES:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Empty {kind} not supported")
    if IP in names:
        if len(names) > 1:
            why = "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
            raise ApiError(ErrorCode.INVALID_REQUEST, why)
        ip = names[IP]
        if ip is not None and canonical_ip(ip) is None:  # no name is looked up: a decision waits for nobody
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{ip} is not a valid IP or resolvable host.")


def describe(
    image: MetadataImage, request: DescribeClientQuotasRequest
) -> ControllerResult[DescribeClientQuotasResponse]:
    """Returns the quotas whose entity matches every component; strict also wants nothing else in the entity.

    MESSAGE_TOO_LARGE where they are too many for one answer.
    """
    try:
        wanted = _filter(request)
        matching = (item for item in image.quotas.items() if _matches(item[0], wanted, strict=request.strict))
        entries = [_row(entity, quotas) for entity, quotas in fitting(matching, _size_bytes)]
    except ApiError as refused:  # entries are null then, not empty
        reply = DescribeClientQuotasResponse(error_code=refused.code, error_message=refused.message, entries=None)
        return ControllerResult(reply)
    return ControllerResult(DescribeClientQuotasResponse(error_code=0, error_message="", entries=entries))


def _row(entity: QuotaKey, quotas: Mapping[str, float]) -> DescribeClientQuotasResponse.EntryData:
    row = DescribeClientQuotasResponse.EntryData
    return row(
        entity=[row.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[row.ValueData(key=key, value=value) for key, value in sorted(quotas.items())],
    )


def _size_bytes(item: tuple[QuotaKey, Mapping[str, float]]) -> int:
    entity, quotas = item
    return _ENTRY_BYTES * (len(entity) + len(quotas)) + sum(text_bytes(name) for _, name in entity)


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
    if IP in wanted and len(wanted) > 1:
        why = (
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )
        raise ApiError(ErrorCode.INVALID_REQUEST, why)
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
