"""Numbers in configs as Java reads them: every spelling here was tried on Apache Kafka 4.3.1."""

import math

import pytest

from tailrace.config import TOPIC_DEFINITIONS
from tailrace.config.definition import ConfigError

RATIO, RETENTION = TOPIC_DEFINITIONS["min.cleanable.dirty.ratio"], TOPIC_DEFINITIONS["retention.ms"]


@pytest.mark.parametrize(
    ("text", "value"),
    [(" 0.5 ", 0.5), (".5", 0.5), ("1.", 1.0), ("+0.5", 0.5), ("-0.0", 0.0), ("5e-1", 0.5), ("0.5f", 0.5), ("1D", 1.0)],
)
def test_a_number_with_a_fraction_is_read_as_java_does(text: str, value: float) -> None:
    assert RATIO.parse(text) == value


def test_no_number_is_a_number_too() -> None:
    found = RATIO.parse("NaN")
    assert isinstance(found, float) and math.isnan(found)
    assert RATIO.text(found) == "NaN"


@pytest.mark.parametrize(
    "text", ["nan", "inf", "infinity", "1_0e-1", "\u0660.\u0665", "", ".", "e5", "0.5fd", "NaNf", "\u00a00.5"]
)
def test_what_only_python_takes_for_a_number_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match="Not a number of type DOUBLE"):
        RATIO.parse(text)


@pytest.mark.parametrize(("text", "shown"), [("Infinity", "Infinity"), ("1e400", "Infinity"), ("2", "2.0")])
def test_a_number_above_the_range_is_shown_as_java_shows_it(text: str, shown: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value {shown} .* Value must be no more than 1"):
        RATIO.parse(text)


@pytest.mark.parametrize(("text", "value"), [("+5", 5), ("\t7\n", 7), ("-1", -1), (str((1 << 63) - 1), (1 << 63) - 1)])
def test_a_whole_number_is_read_as_java_does(text: str, value: int) -> None:
    assert RETENTION.parse(text) == value


@pytest.mark.parametrize(
    "text", ["-+5", "+-5", "1_000", "1e3", "5L", "0x10", "", "1.0", "\u00a05", str(1 << 63), "9" * 5000]
)
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="Not a number of type LONG"):
        RETENTION.parse(text)
