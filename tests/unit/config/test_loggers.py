"""Broker loggers as a config resource (KIP-412): what is refused, with Apache Kafka's code and sentence."""

import pytest

from tailrace.config.alter import AlterConfigOp, Operation
from tailrace.config.loggers import LEVELS, altered, described
from tailrace.errors import ApiError
from tailrace.kafka.resources import ConfigSource

KNOWN = {"root": "WARN", "tailrace.broker": "INFO"}
SET, DELETE, APPEND, SUBTRACT = Operation
VALID = "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"


def test_loggers_are_described_by_name_with_the_source_of_their_own() -> None:
    rows = described({"b": "INFO", "a": "WARN"})
    assert [(row.name, row.value, row.source, row.read_only) for row in rows] == [
        ("a", "WARN", ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG, False),
        ("b", "INFO", ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG, False),
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_of_kafka_may_be_set(level: str) -> None:
    assert altered(KNOWN, [AlterConfigOp("root", SET, level)]) == {"root": level}


def test_a_deleted_level_is_the_parents() -> None:
    changes = [AlterConfigOp("root", SET, "ERROR"), AlterConfigOp("tailrace.broker", DELETE, None)]
    assert altered(KNOWN, changes) == {"root": "ERROR", "tailrace.broker": None}


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ([("root", SET, "debug")], "INVALID_CONFIG", f"to debug as it is not a supported log level. {VALID}"),
        ([("root", SET, "")], "INVALID_CONFIG", f"to  as it is not a supported log level. {VALID}"),
        ([("root", SET, None)], "INVALID_REQUEST", "Null value not supported for : root"),
        ([("root", DELETE, None)], "INVALID_REQUEST", "Removing the log level of the root logger is not allowed"),
        ([("root", APPEND, "INFO")], "INVALID_REQUEST", "APPEND operation is not allowed for the BROKER_LOGGER"),
        ([("root", SUBTRACT, "INFO")], "INVALID_REQUEST", "SUBTRACT operation is not allowed for the BROKER_LOGGER"),
        ([("root", 9, "INFO")], "INVALID_REQUEST", "Unknown operation type 9."),
        ([("no", SET, "INFO")], "INVALID_CONFIG", "Logger no does not exist!"),
        ([("no", SET, "LOUD")], "INVALID_CONFIG", "Logger no does not exist!"),
        ([("no", DELETE, None)], "INVALID_CONFIG", "Logger no does not exist!"),
        ([("root", SET, "INFO"), ("root", SET, "WARN")], "INVALID_REQUEST", "Error due to duplicate config keys"),
        ([("root", SET, "INFO"), ("no", SET, "INFO")], "INVALID_CONFIG", "Logger no does not exist!"),
    ],
)
def test_what_kafka_refuses_is_refused(changes: list[tuple[str, int, str | None]], code: str, message: str) -> None:
    with pytest.raises(ApiError, match=message.replace("(", r"\(")) as refused:
        altered(KNOWN, [AlterConfigOp(*change) for change in changes])
    assert refused.value.code.name == code
