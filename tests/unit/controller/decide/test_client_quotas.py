"""AlterClientQuotas and DescribeClientQuotas for client ids; everything else is refused for now."""

import math
from typing import Any

import pytest

from support.metadata import after, cluster
from tailrace.errors import ErrorCode
from tailrace.metadata import records as r
from tailrace.wire.messages import AlterClientQuotasRequest, DescribeClientQuotasRequest
from tailrace_controller.decide import client_quotas

EXACT, DEFAULT, ANY = range(3)
APP = (r.QuotaEntity("client-id", "app"),)
EVERYONE = (r.QuotaEntity("client-id", None),)
IMAGE = after(
    cluster(),
    r.ClientQuotaRecord(APP, "producer_byte_rate", 1000.0),
    r.ClientQuotaRecord(EVERYONE, "consumer_byte_rate", 500.0),
)
Entry = AlterClientQuotasRequest.EntryData


def alter(entity: list[tuple[str, str | None]], *ops: tuple[str, float | None], validate_only: bool = False) -> Any:
    rows = [Entry.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops]
    parts = [Entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    request = AlterClientQuotasRequest(entries=[Entry(entity=parts, ops=rows)], validate_only=validate_only)
    return client_quotas.alter(IMAGE, request)


def test_quotas_are_set_changed_and_removed() -> None:
    effects = alter([("client-id", "app")], ("producer_byte_rate", None), ("consumer_byte_rate", 7.0))
    assert effects.records == (
        r.ClientQuotaRecord(APP, "producer_byte_rate", 0.0, remove=True),
        r.ClientQuotaRecord(APP, "consumer_byte_rate", 7.0),
    )
    (row,) = effects.reply.entries
    assert (row.error_code, row.entity[0].entity_name) == (0, "app")


def test_the_default_client_id_has_no_name() -> None:
    assert alter([("client-id", None)], ("producer_byte_rate", 9.0)).records == (
        r.ClientQuotaRecord(EVERYONE, "producer_byte_rate", 9.0),
    )


def test_removing_what_is_not_set_and_setting_what_is_records_nothing() -> None:
    assert alter([("client-id", "app")], ("consumer_byte_rate", None), ("producer_byte_rate", 1000.0)).records == ()


def test_validating_alone_records_nothing() -> None:
    assert alter([("client-id", "x")], ("producer_byte_rate", 5.0), validate_only=True).records == ()


@pytest.mark.parametrize(
    ("entity", "op", "message"),
    [
        ([], ("producer_byte_rate", 1.0), "empty client quota entity"),
        ([("user", "u")], ("producer_byte_rate", 1.0), "not supported yet"),
        ([("user", "u"), ("client-id", "c")], ("producer_byte_rate", 1.0), "not supported yet"),
        ([("ip", "1.2.3.4")], ("connection_creation_rate", 1.0), "not supported yet"),
        ([("team", "t")], ("producer_byte_rate", 1.0), "Unhandled client quota entity type: team"),
        ([("client-id", "")], ("producer_byte_rate", 1.0), "Empty client-id not supported"),
        ([("client-id", "c")], ("no_such_rate", 1.0), "Invalid configuration key no_such_rate"),
    ],
)
def test_alter_refuses_with_invalid_request(entity: Any, op: tuple[str, float], message: str) -> None:
    effects = alter(entity, op)
    (row,) = effects.reply.entries
    assert (row.error_code, effects.records) == (ErrorCode.INVALID_REQUEST, ())
    assert message in row.error_message


POSITIVE, WHOLE, LONG, FINITE = (
    "must be greater than 0",
    "cannot be a fractional value.",
    "is too large for a LONG.",
    "must be a finite number",
)


@pytest.mark.parametrize(
    ("value", "of_bytes", "of_others"),
    [
        (-math.inf, POSITIVE, POSITIVE),
        (-1.0, POSITIVE, POSITIVE),
        (-0.0, POSITIVE, POSITIVE),
        (5e-324, WHOLE, None),
        (0.5, WHOLE, None),
        (1.0, None, None),
        (1.5, WHOLE, None),
        (1024.0000001, None, None),
        (1024.0001, WHOLE, None),
        (2.0**63, None, None),
        (2.0**64, LONG, None),
        (1e300, LONG, None),
        (math.inf, LONG, FINITE),
        (math.nan, FINITE, FINITE),
    ],
)
@pytest.mark.parametrize("key", sorted(client_quotas.KEYS))
def test_a_rate_is_checked_for_what_it_can_be(
    key: str, value: float, of_bytes: str | None, of_others: str | None
) -> None:
    refusal = of_bytes if key.endswith("byte_rate") else of_others
    (row,) = alter([("client-id", "c")], (key, value)).reply.entries
    assert row.error_code == (ErrorCode.NONE if refusal is None else ErrorCode.INVALID_REQUEST)
    assert refusal is None or refusal in row.error_message


def test_a_key_given_twice_is_refused() -> None:
    effects = alter([("client-id", "c")], ("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0))
    assert effects.reply.entries[0].error_code == ErrorCode.INVALID_REQUEST


def describe(
    *components: tuple[str, int, str | None], strict: bool = False
) -> list[tuple[str | None, dict[str, float]]]:
    asked = DescribeClientQuotasRequest.ComponentData
    rows = [asked(entity_type=kind, match_type=match_type, match=match) for kind, match_type, match in components]
    reply = client_quotas.describe(IMAGE, DescribeClientQuotasRequest(components=rows, strict=strict)).reply
    return [
        (row.entity[0].entity_name, {value.key: value.value for value in row.values}) for row in reply.entries or ()
    ]


@pytest.mark.parametrize(
    ("component", "names"),
    [
        (("client-id", EXACT, "app"), ["app"]),
        (("client-id", EXACT, "other"), []),
        (("client-id", DEFAULT, None), [None]),
        (("client-id", ANY, None), ["app", None]),
        (("user", ANY, None), []),
    ],
)
def test_describe_matches_exact_default_and_any(
    component: tuple[str, int, str | None], names: list[str | None]
) -> None:
    assert [name for name, _ in describe(component)] == names


def test_no_filter_describes_everything_and_strict_only_what_is_named() -> None:
    assert describe() == [("app", {"producer_byte_rate": 1000.0}), (None, {"consumer_byte_rate": 500.0})]
    assert describe(strict=True) == []


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("team", ANY, None)], "UNSUPPORTED_VERSION"),
        ([("", ANY, None)], "INVALID_REQUEST"),
        ([("user", ANY, None), ("user", ANY, None)], "INVALID_REQUEST"),
        ([("client-id", EXACT, None)], "INVALID_REQUEST"),
        ([("client-id", DEFAULT, "x")], "INVALID_REQUEST"),
        ([("client-id", ANY, "x")], "INVALID_REQUEST"),
        ([("client-id", 3, None)], "INVALID_REQUEST"),
    ],
)
def test_describe_refuses_filters_nobody_can_match(components: Any, code: str) -> None:
    asked = DescribeClientQuotasRequest.ComponentData
    rows = [asked(entity_type=kind, match_type=match_type, match=match) for kind, match_type, match in components]
    reply = client_quotas.describe(IMAGE, DescribeClientQuotasRequest(components=rows, strict=False)).reply
    assert (ErrorCode(reply.error_code).name, reply.entries) == (code, None)
