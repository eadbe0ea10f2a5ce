"""The columns that rows add, and rows that do not fit."""

from __future__ import annotations

import pytest

from tailrace.tables.columns import MOST_COLUMNS, Columns
from tailrace.tables.fields.field import Undecodable


def test_new_fields_are_new_columns() -> None:
    columns = Columns({"a": "long"})
    assert columns.fit({"a": 1, "b": "x"}) == {"a": 1, "b": "x"}
    columns.fit({"c": True})
    assert columns.types == {"a": "long", "b": "string", "c": "boolean"}


def test_names_that_differ_in_their_case_are_one_column() -> None:
    columns = Columns({"userId": "long"})
    assert columns.fit({"UserID": 1}) == {"userId": 1}
    with pytest.raises(Undecodable, match="two fields make one column, userId"):
        columns.fit({"userid": 1, "USERID": 2})


@pytest.mark.parametrize(
    ("have", "value"),
    [("long", "x"), ("long", 1.5), ("long", True), ("string", 1), ("boolean", 1), ("double", 2**53 + 1), ("nested", 1)],
)
def test_a_type_that_conflicts_fits_no_column(have: str, value: bool | int | float | str) -> None:
    columns = Columns({"a": have})
    with pytest.raises(Undecodable, match=f"column a is {have}, the field is "):
        columns.fit({"a": value, "b": 1})
    assert columns.types == {"a": have}


def test_an_integer_fits_a_column_of_doubles() -> None:
    assert Columns({"a": "double"}).fit({"a": 2**53}) == {"a": 2**53}


def test_a_column_that_is_new_becomes_one_of_doubles() -> None:
    columns = Columns({})
    columns.fit({"a": 1})
    columns.fit({"a": 1.5})
    assert columns.types == {"a": "double"}


def test_a_column_with_integers_that_are_no_doubles_stays() -> None:
    columns = Columns({})
    columns.fit({"a": 2**53 + 1})
    with pytest.raises(Undecodable):
        columns.fit({"a": 1.5})
    assert columns.types == {"a": "long"}


def test_the_number_of_columns_has_a_bound() -> None:
    columns = Columns({f"c{number}": "long" for number in range(MOST_COLUMNS - 1)})
    columns.fit({"last": 1})
    with pytest.raises(Undecodable, match="more than 1000 columns"):
        columns.fit({"one": 1})
    assert columns.fit({"c0": 1}) == {"c0": 1}
