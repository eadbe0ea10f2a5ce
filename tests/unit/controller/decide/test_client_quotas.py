"""AlterClientQuotas and DescribeClientQuotas: what Apache Kafka 4.4.0 takes and refuses."""

import math
from typing import Any

import pytest

from support.metadata import after, cluster
from tailrace.errors import ErrorCode
from tailrace.metadata import records as r
from tailrace.metadata.image import MetadataImage
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


def alter(
    entity: list[tuple[str, str | None]],
    *ops: tuple[str, float | None],
    validate_only: bool = False,
    image: MetadataImage = IMAGE,
) -> Any:
    rows = [Entry.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops]
    parts = [Entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    request = AlterClientQuotasRequest(entries=[Entry(entity=parts, ops=rows)], validate_only=validate_only)
    return client_quotas.alter(image, request)


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


@pytest.mark.parametrize(
    "entity",
    [
        [("user", "u")],
        [("user", None)],
        [("user", "u"), ("client-id", "c")],
        [("client-id", None), ("user", "x y,z=/&é")],
        [("user", None), ("client-id", None)],
    ],
)
@pytest.mark.parametrize("key", sorted(client_quotas.KEYS))
def test_users_and_users_with_client_ids_take_all_four_keys(entity: Any, key: str) -> None:
    parts = tuple(r.QuotaEntity(*part) for part in entity)
    assert alter(entity, (key, 5.0)).records == (r.ClientQuotaRecord(parts, key, 5.0),)


@pytest.mark.parametrize("ip", ["127.0.0.1", "::1", "1", "1.2.3", "[::1]", "::ffff:1.2.3.4", "localhost", None])
@pytest.mark.parametrize("rate", [1.0, 2147483647.0, 1024.0000001])
def test_addresses_take_a_rate_of_connections(ip: str | None, rate: float) -> None:
    records = alter([("ip", ip)], ("connection_creation_rate", rate)).records
    assert records == (r.ClientQuotaRecord((r.QuotaEntity("ip", ip),), "connection_creation_rate", rate),)


def test_an_entity_type_given_twice_is_the_last_one() -> None:
    records = alter([("user", "u"), ("user", "w")], ("producer_byte_rate", 5.0)).records
    assert records == (r.ClientQuotaRecord((r.QuotaEntity("user", "w"),), "producer_byte_rate", 5.0),)


def test_what_is_present_is_found_whatever_the_order_of_the_entity() -> None:
    parts = (r.QuotaEntity("user", "u"), r.QuotaEntity("client-id", "c"))
    image = after(IMAGE, r.ClientQuotaRecord(parts, "producer_byte_rate", 5.0))
    assert alter([("user", "u"), ("client-id", "c")], ("producer_byte_rate", 5.0), image=image).records == ()
    assert alter([("client-id", "c"), ("user", "u")], ("producer_byte_rate", 5.0), image=image).records == ()


def test_removing_a_key_that_nobody_knows_is_no_error() -> None:
    effects = alter([("user", "gone")], ("no_such_rate", None))
    assert (effects.records, effects.reply.entries[0].error_code) == ((), ErrorCode.NONE)


def test_removing_what_is_not_set_and_setting_what_is_records_nothing() -> None:
    assert alter([("client-id", "app")], ("consumer_byte_rate", None), ("producer_byte_rate", 1000.0)).records == ()


def test_validating_alone_records_nothing() -> None:
    assert alter([("client-id", "x")], ("producer_byte_rate", 5.0), validate_only=True).records == ()


@pytest.mark.parametrize(
    ("entity", "op", "message"),
    [
        ([], ("producer_byte_rate", 1.0), "empty client quota entity"),
        ([("user", "u"), ("team", "t")], ("producer_byte_rate", 1.0), "Unhandled client quota entity type: team"),
        ([("User", "u")], ("producer_byte_rate", 1.0), "Unhandled client quota entity type: User"),
        ([("user", "")], ("producer_byte_rate", 1.0), "Empty user not supported"),
        ([("ip", "")], ("connection_creation_rate", 1.0), "Empty ip not supported"),
        ([("ip", "1.2.3.4"), ("user", "u")], ("connection_creation_rate", 1.0), "Invalid quota entity combination"),
        ([("ip", "1.2.3.4"), ("client-id", "c")], ("producer_byte_rate", 1.0), "Invalid quota entity combination"),
        ([("ip", "300.1.1.1")], ("connection_creation_rate", 1.0), "300.1.1.1 is not a valid IP or resolvable host."),
        ([("ip", "kafka host")], ("connection_creation_rate", 1.0), "kafka host is not a valid IP"),
        ([("ip", "1.2.3.4")], ("producer_byte_rate", 1.0), "Invalid configuration key producer_byte_rate"),
        ([("ip", None)], ("request_percentage", 1.0), "Invalid configuration key request_percentage"),
        ([("user", "u")], ("connection_creation_rate", 1.0), "Invalid configuration key connection_creation_rate"),
        ([("ip", "1.2.3.4")], ("connection_creation_rate", 0.5), "cannot be a fractional value."),
        ([("ip", "1.2.3.4")], ("connection_creation_rate", 2.0**31), "is too large for an INT."),
        ([("ip", "1.2.3.4")], ("connection_creation_rate", math.inf), "must be a finite number"),
        ([("ip", "1.2.3.4")], ("connection_creation_rate", math.nan), "must be a finite number"),
        ([("ip", "1.2.3.4")], ("connection_creation_rate", -1.0), "must be greater than 0"),
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
        (-math.inf, FINITE, FINITE),
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
        (math.inf, FINITE, FINITE),
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
        ([("user", ANY, None), ("ip", ANY, None)], "INVALID_REQUEST"),
        ([("ip", EXACT, "1.2.3.4"), ("client-id", DEFAULT, None)], "INVALID_REQUEST"),
    ],
)
def test_describe_refuses_filters_nobody_can_match(components: Any, code: str) -> None:
    asked = DescribeClientQuotasRequest.ComponentData
    rows = [asked(entity_type=kind, match_type=match_type, match=match) for kind, match_type, match in components]
    reply = client_quotas.describe(IMAGE, DescribeClientQuotasRequest(components=rows, strict=False)).reply
    assert (ErrorCode(reply.error_code).name, reply.entries) == (code, None)


NAMED = {
    "u": (("user", "u"),),
    "U": (("user", None),),
    "c": (("client-id", "c"),),
    "C": (("client-id", None),),
    "uc": (("user", "u"), ("client-id", "c")),
    "Uc": (("client-id", "c"), ("user", None)),
    "uC": (("user", "u"), ("client-id", None)),
    "UC": (("user", None), ("client-id", None)),
    "i": (("ip", "10.0.0.1"),),
    "I": (("ip", None),),
}
MANY = after(
    cluster(),
    *(r.ClientQuotaRecord(tuple(r.QuotaEntity(*p) for p in parts), "any_rate", 1.0) for parts in NAMED.values()),
)


@pytest.mark.parametrize(
    ("components", "found", "strictly"),
    [  # as Apache Kafka 4.3.1 answered
        ([], "u U c C uc Uc uC UC i I", ""),
        ([("user", EXACT, "u")], "u uc uC", "u"),
        ([("user", DEFAULT, None)], "U Uc UC", "U"),
        ([("user", ANY, None)], "u U uc Uc uC UC", "u U"),
        ([("client-id", EXACT, "c")], "c uc Uc", "c"),
        ([("client-id", DEFAULT, None)], "C uC UC", "C"),
        ([("client-id", ANY, None)], "c C uc Uc uC UC", "c C"),
        ([("ip", EXACT, "10.0.0.1")], "i", "i"),
        ([("ip", DEFAULT, None)], "I", "I"),
        ([("ip", ANY, None)], "i I", "i I"),
        ([("user", EXACT, "u"), ("client-id", EXACT, "c")], "uc", "uc"),
        ([("user", ANY, None), ("client-id", ANY, None)], "uc Uc uC UC", "uc Uc uC UC"),
        ([("user", DEFAULT, None), ("client-id", DEFAULT, None)], "UC", "UC"),
        ([("user", EXACT, "")], "", ""),
    ],
)
def test_every_filter_finds_what_it_finds_in_kafka(components: Any, found: str, strictly: str) -> None:
    asked = DescribeClientQuotasRequest.ComponentData
    rows = [asked(entity_type=kind, match_type=match_type, match=match) for kind, match_type, match in components]
    keys = {frozenset(parts): name for name, parts in NAMED.items()}
    for strict, names in ((False, found), (True, strictly)):
        reply = client_quotas.describe(MANY, DescribeClientQuotasRequest(components=rows, strict=strict)).reply
        entities = [
            frozenset((part.entity_type, part.entity_name) for part in row.entity) for row in reply.entries or ()
        ]
        assert sorted(keys[entity] for entity in entities) == sorted(names.split())
