"""Accounts of quotas as AcquireLease carries them: a nullable field for each entity type."""

from __future__ import annotations

from typing import Any

from tailrace.quota.entity import BROKER, CLIENT_ID, IP, USER, Account

# Sorted by entity type, as accounts are.
_FIELDS = ((BROKER, "broker"), (CLIENT_ID, "client_id"), (IP, "ip"), (USER, "user"))


def account_of(entry: Any) -> Account:
    """The account that an entry names; empty where it names none."""
    return tuple((kind, getattr(entry, field)) for kind, field in _FIELDS if getattr(entry, field) is not None)


def fields_of(account: Account) -> dict[str, Any]:
    """The fields of an entry about this account."""
    names = dict(account)
    return {field: names.get(kind) for kind, field in _FIELDS}
