"""Which clients the host of an ACL covers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.access.hosts import covers, invalid_host


@pytest.mark.parametrize(
    ("pattern", "host", "expected"),
    [
        ("*", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.0/8", "10.255.255.255", True),
        ("10.0.0.0/8", "11.0.0.0", False),
        ("10.1.2.3/24", "10.1.2.255", True),
        ("0.0.0.0/0", "1.2.3.4", True),
        ("0.0.0.0/0", "::1", False),
        ("1.2.3.4/32", "1.2.3.4", True),
        ("2001:db8::/32", "2001:db8:0:0:0:0:0:1", True),
        ("2001:db8::/32", "2001:db9::1", False),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("fe80::/10", "fe80::1%eth0", True),
        ("10.0.0.0/33", "10.0.0.0", False),
        ("10.0.0.0/255.0.0.0", "10.0.0.1", False),
        ("a-name", "10.0.0.1", False),
        ("a-name", "a-name", True),
    ],
)
def test_hosts(pattern: str, host: str, expected: bool) -> None:
    assert covers(pattern, host) is expected


@pytest.mark.parametrize("pattern", ["10.0.0.0/33", "10.0.0.0/255.0.0.0", "10.0.0.0/", "/8", "x/8", "::/129", "1::/-1"])
def test_ranges_that_are_refused(pattern: str) -> None:
    assert invalid_host(pattern) == f"Invalid CIDR notation '{pattern}': Could not parse [{pattern}]"


def test_an_empty_host_is_refused() -> None:
    assert invalid_host("") == "Host pattern cannot be null or empty"


@pytest.mark.parametrize("pattern", ["*", "10.0.0.1", "10.0.0.0/8", "10.1.2.3/8", "2001:db8::/32", "a-name"])
def test_hosts_that_are_taken(pattern: str) -> None:
    assert invalid_host(pattern) is None


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_has_an_answer(pattern: str, host: str) -> None:
    assert covers(pattern, host) in (True, False)
    invalid_host(pattern)
