"""The part of CEL that a service evaluates: what is of it, and that nothing else is read as if it were."""

from __future__ import annotations

import cel
import pytest

from tailrace.reading.filter_words import FUNCTIONS, fault_in

PARTS = ("key", "value")


@pytest.mark.parametrize(
    "expression",
    [
        "value.a > 10 && !has(value.b) || -1.5e3 != 0x1Fu % 2u",
        "key in ['a', \"b\", b'\\xff'] ? {1: 2}[1] <= 3 : value[0].sku == ''",
        r""""\"" == '\'' || "\\" == '"' || '\u00e9\x41\101\n' == "é" """,
        "key.startsWith('map(') == (\"// '''\" == 'all(')",
        "value.map == 1 && value.all.filter > 2",  # fields, not calls
        "key . \r\n\tstartsWith\n('a')",
    ],
)
def test_an_expression_without_loops_is_of_it(expression: str) -> None:
    assert fault_in(expression, PARTS) is None
    cel.compile(expression)


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("[1].existsOne(offset, true)", "existsOne at 5"),
        ("[1].map\n (key, true)", "map at 5"),
        ("optional.of(1)", "of at 10"),
        ("(map)(1)", None),  # no call for the parser
        ("value.map//\n(key, true)", "/ at 10"),
        (r'r"\" != [1].map(key, true) + ""', "r at 1"),
        (r"""R'\' != [1].map(key, true) + ''""", "R at 1"),
        (r'br"\" != [1].map(key, true) + b""', "b at 1"),
        ("// '''\n[1].map(key, true) // '''", "/ at 1"),
        ('"""" != [1].map(key, true) + """"', '" at 1'),
        ("''''+[1].map(key, true)+''''", "' at 1"),
        ('b"""" != [1].map(key, true) + b""""', "b at 1"),
        ('1"" + x', "1 at 1"),
        ("1.5map(1)", "5 at 3"),
        ("[1].`map`(key, true)", "` at 5"),
        ('"a\nb"', '" at 1'),
        ('"a\rb"', '" at 1'),
        (r'"\q"', '" at 1'),
        ('key == "a', '" at 8'),
        ("key\f== 1", "\f at 4"),
        ("k\u00e9y == 1", "\u00e9 at 2"),
        ("key.?a", None),  # the parser refuses it
        ("key & 1", "& at 5"),
        ("key = 1", "= at 5"),
        (" + ".join(["key"] * 6), "+ at 29"),
        ("||".join(["key.matches('a')"] * 5), "matches at 77"),
        ("&&".join(["key==value"] * 9), "key at 97"),
    ],
)
def test_what_is_not_of_it_is_refused_with_its_place(expression: str, fault: str | None) -> None:
    found = fault_in(expression, PARTS)
    if fault is None:
        assert found is None
        with pytest.raises(ValueError, match="Failed to parse"):
            cel.compile(expression)
    else:
        assert found is not None and found.startswith(f"{fault}: ")


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_a_function_that_is_allowed_is_no_loop(function: str) -> None:
    """What the parser makes of a loop has other operators than its call."""
    expression = f"{function}(key.a)" if function == "has" else f"key.{function}(key)"
    assert cel.compile(expression).functions() == ([] if function == "has" else [function])
