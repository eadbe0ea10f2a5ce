"""Text of metadata records that every database can hold: PostgreSQL takes no NUL, and only short keys."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    UserScramCredentialRecord,
)

# Two names of a row, escaped, are one key: an index of PostgreSQL holds 2,704 bytes.
MAX_NAME_BYTES = 512
_Texts = Iterator[tuple[str, str | None, int | None]]  # what it is, the text, the most bytes


def check(records: Collection[MetadataRecord], code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
    """Raises ApiError for a record whose text cannot be stored. What only removes something is stored already."""
    if _TEXTS.keys().isdisjoint(map(type, records)):  # thousands of partitions have no text
        return
    for record in records:
        texts = _TEXTS.get(type(record))
        for what, text, most in texts(record) if texts is not None else ():
            if text is None:
                continue
            if "\0" in text:
                raise ApiError(code, f"The {what} has a NUL character.")
            if most is not None and len(text) * 4 > most and len(text.encode()) > most:
                raise ApiError(code, f"The {what} has more than {most} bytes.")


def _of_config(record: ConfigRecord) -> _Texts:
    if record.value is not None:
        yield "name of the config resource", record.resource_name, MAX_NAME_BYTES
        yield "name of the config", record.name, MAX_NAME_BYTES
        yield f"value of {record.name}", record.value, None


def _of_quota(record: ClientQuotaRecord) -> _Texts:
    for part in () if record.remove else record.entity:
        yield f"{part.entity_type} of the quota", part.entity_name, MAX_NAME_BYTES


def _of_acl(record: AccessControlEntryRecord) -> _Texts:
    yield "resource name of the ACL", record.resource_name, MAX_NAME_BYTES
    yield "principal of the ACL", record.principal, MAX_NAME_BYTES
    yield "host of the ACL", record.host, MAX_NAME_BYTES


def _of_broker(record: RegisterBrokerRecord) -> _Texts:
    yield "rack", record.rack, MAX_NAME_BYTES


def _of_credential(record: UserScramCredentialRecord) -> _Texts:
    yield "name of the user", record.name, MAX_NAME_BYTES


# All other text of records is a topic's name, a role or an address, which have rules of their own.
_TEXTS: Mapping[type, Callable[[Any], _Texts]] = {
    ConfigRecord: _of_config,
    ClientQuotaRecord: _of_quota,
    RegisterBrokerRecord: _of_broker,
    UserScramCredentialRecord: _of_credential,
    AccessControlEntryRecord: _of_acl,
}
