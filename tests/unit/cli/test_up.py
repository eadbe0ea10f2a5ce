"""What `up` says of itself when everything is ready."""

from __future__ import annotations

import pytest

from tailrace.cli.up import admin_url


@pytest.mark.parametrize(
    ("bound", "url"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("[::]:8080", "http://[::1]:8080"),
        ("[fd00::1]:8080", "http://[fd00::1]:8080"),
        ("192.0.2.1:8080", "http://192.0.2.1:8080"),
    ],
)
def test_the_admin_address_can_be_opened_where_up_runs(bound: str, url: str) -> None:
    assert admin_url({"admin": bound, "http": "127.0.0.1:1"}) == url


def test_without_a_rest_api_it_is_the_page_of_health() -> None:
    assert admin_url({"http": "127.0.0.1:9400"}) == "http://127.0.0.1:9400"
