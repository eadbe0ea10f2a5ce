"""Numbers that a client may send and no client means: each is answered as by Apache Kafka, never as a bug."""

import math
from typing import Any

import pytest

from support.raw import build
from support.stage import create_topic, unique
from support.targets import Target
from support.waiting import until

INVALID_CONFIG, INVALID_REQUEST, LOADING = 40, 42, 14
TOPIC = 2
capability = pytest.mark.capability("numbers out of their range are refused")


@capability
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("producer_byte_rate", math.inf, "Quota producer_byte_rate must be a finite number"),
        ("consumer_byte_rate", 1e300, "Proposed value for consumer_byte_rate is too large for a LONG."),
        ("consumer_byte_rate", 2.0**63, None),
        ("producer_byte_rate", -math.inf, "Quota producer_byte_rate must be a finite number"),
        ("request_percentage", math.nan, "Quota request_percentage must be a finite number"),
        ("producer_byte_rate", -1.0, "Quota producer_byte_rate must be greater than 0"),
        ("producer_byte_rate", -0.0, "Quota producer_byte_rate must be greater than 0"),
        ("producer_byte_rate", 0.5, "producer_byte_rate cannot be a fractional value."),
        ("producer_byte_rate", 1024.0001, "producer_byte_rate cannot be a fractional value."),
        ("producer_byte_rate", 1024.0000001, None),
        ("request_percentage", 0.5, None),
        ("request_percentage", 0.0, "Quota request_percentage must be greater than 0"),
        ("controller_mutation_rate", 1e300, None),
    ],
)
def test_client_quotas(target: Target, key: str, value: float, message: str | None) -> None:
    entity = [{"entity_type": "client-id", "entity_name": unique("client")}]
    entry = {"entity": entity, "ops": [{"key": key, "value": value, "remove": False}]}
    (row,) = target.ask(build(49, entries=[entry], validate_only=True), 1).entries
    assert (row.error_code, row.error_message) == (INVALID_REQUEST if message else 0, message)


@capability
@pytest.mark.parametrize(
    ("config", "value", "refused"),
    [
        ("retention.ms", "1_000", True),
        ("retention.ms", "-+5", True),
        ("retention.ms", "\u00a05", True),
        ("retention.ms", "\t7\n", False),
        ("retention.ms", "9223372036854775808", True),
        ("segment.bytes", "2147483648", True),
        ("min.cleanable.dirty.ratio", "nan", True),
        ("min.cleanable.dirty.ratio", "NaN", False),
        ("min.cleanable.dirty.ratio", "inf", True),
        ("min.cleanable.dirty.ratio", "Infinity", True),
        ("min.cleanable.dirty.ratio", "0.5f", False),
        ("min.cleanable.dirty.ratio", "1_0e-2", True),
    ],
)
def test_configs(target: Target, config: str, value: str, refused: bool) -> None:
    changes = [{"name": config, "config_operation": 0, "value": value}]
    resource = {"resource_type": TOPIC, "resource_name": create_topic(target).name, "configs": changes}
    (row,) = target.ask(build(44, resources=[resource], validate_only=True), 1).responses
    assert row.error_code == (INVALID_CONFIG if refused else 0), row.error_message


@capability
@pytest.mark.parametrize(
    ("producer_id", "producer_epoch", "code"),
    [(-1, -1, 0), (5, -1, 42), (-2, -1, 42), (-1, 0, 42), (-1, -2, 42), (5, 3, 0), (1 << 62, 32767, 0)],
)
def test_producer_ids(target: Target, producer_id: int, producer_epoch: int, code: int) -> None:
    request = build(
        22,
        transactional_id=None,
        transaction_timeout_ms=1000,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )

    def answer() -> Any:
        found = target.ask(request, 4)
        return None if found.error_code == LOADING else found

    found = until(answer, "a producer id")
    assert found.error_code == code
    assert (found.producer_id >= 0) == (code == 0)
