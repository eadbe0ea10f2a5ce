"""The fields of JSON values, and what makes no row."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.tables.fields.field import Undecodable
from tailrace.tables.fields.json_fields import decode


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        (b'{"a": 1, "b": 1.5, "c": true, "d": "x", "e": null}', {"a": 1, "b": 1.5, "c": True, "d": "x"}),
        (b'{"at": {"x": [1, "\xc3\xa9"]}, "tags": []}', {"at": '{"x":[1,"é"]}', "tags": "[]"}),
        (b'{"http.status": 200, "a b": 1}', {"http_status": 200, "a_b": 1}),
        (b'{"n": 9223372036854775807}', {"n": 2**63 - 1}),
        (b'{"t": "\\ud83d\\ude00"}', {"t": "😀"}),
        (b"{}", {}),
        (None, {}),
    ],
)
def test_the_fields_of_an_object_are_columns(value: bytes | None, fields: dict[str, object]) -> None:
    assert decode(value) == fields


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "not JSON: Expecting value at character 0"),
        (b"{", "not JSON: Expecting property name enclosed in double quotes at character 1"),
        (b"\xff\xfe\x00", "not JSON: not UTF-8"),
        (b"[1]", "not a JSON object"),
        (b"1", "not a JSON object"),
        (b'{"a": NaN}', "not JSON: NaN is no JSON number"),
        (b'{"a": 1e999}', "field a: a number that no double holds"),
        (b'{"a": 9223372036854775808}', "field a: an integer of more than 64 bits"),
        (b'{"a": "\\ud800"}', "a text with half of a surrogate pair"),
        (b'{"\\ud800": 1}', "a text with half of a surrogate pair"),
        (b'{"a.b": 1, "a_b": 2}', "two fields make one column, a_b"),
        (b'{"_KAFKA_offset": 1}', "field _KAFKA_offset: names that begin with _kafka_ are of the table's own columns"),
        (b'{"": 1}', "a field's name has 0 characters: from 1 to 255 can be a column"),
        (b"[" * 100_000, "not JSON: nested too deeply"),
    ],
)
def test_what_makes_no_row_says_why(value: bytes, reason: str) -> None:
    with pytest.raises(Undecodable) as refused:
        decode(value)
    assert str(refused.value) == reason


@given(
    st.binary(max_size=200)
    | st.recursive(st.none() | st.integers() | st.floats() | st.text(), st.lists).map(
        lambda found: json.dumps({"a": found}).encode()
    )
)
def test_every_value_is_fields_or_undecodable(value: bytes) -> None:
    try:
        fields = decode(value)
    except Undecodable:
        return
    for name, field in fields.items():
        assert name.encode() and (not isinstance(field, str) or field.encode() is not None)
