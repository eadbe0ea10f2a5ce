"""Where tables may lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.tables.location import parse_location, parse_registry


def test_a_folder_is_absolute_and_a_url_has_no_slash_at_its_end() -> None:
    assert parse_location("tables") == str(Path.cwd() / "tables")
    assert parse_location("s3://bucket/some/prefix/") == "s3://bucket/some/prefix"


@pytest.mark.parametrize("text", ["", "gs://bucket", "s3://", "s3://bucket?x=1", "s3://key:secret@bucket/tables"])
def test_another_place_is_refused_and_a_secret_is_not_repeated(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_location(text)
    assert "secret@" not in str(refused.value)


def test_a_registry_is_a_url_of_http() -> None:
    assert parse_registry("https://registry:8081/", "me:secret") == ("https://registry:8081", "me:secret")
    assert parse_registry("") is None


@pytest.mark.parametrize(
    "text", ["registry:8081", "file:///etc/passwd", "http://", "http://r?x=1", "http://u:secret@r"]
)
def test_another_registry_is_refused_and_a_secret_is_not_repeated(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_registry(text)
    assert "secret@" not in str(refused.value)
