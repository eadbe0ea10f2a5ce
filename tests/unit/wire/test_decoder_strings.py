"""A string of more than 32,767 bytes is no string, in every API: Apache Kafka closes the connection, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tailrace.wire import codec, library
from tailrace.wire.apis import APIS, Api, ApiKey
from tailrace.wire.hot.fetch import decode_fetch
from tailrace.wire.hot.list_offsets import decode_list_offsets
from tailrace.wire.hot.produce import decode_produce
from tailrace.wire.malformed import Malformed

LONGEST = 32_767
BY_HAND: dict[ApiKey, Callable[[int, memoryview], Any]] = {
    ApiKey.PRODUCE: decode_produce,
    ApiKey.FETCH: decode_fetch,
    ApiKey.LIST_OFFSETS: decode_list_offsets,
}


def texts(struct: Any, version: int, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The way to each string of a request, through lists and structs."""
    for field in struct.untagged_fields(version):
        inner = field.array_of if field.is_array() else field
        if inner.is_struct():
            yield from texts(inner, version, (*path, field.name))
        elif inner.type_str == "string":
            yield *path, field.name


def flexible(api: Api) -> Iterator[int]:
    return (version for version in range(api.min_version, api.max_version + 1) if api.flexible(version))


CASES = [
    pytest.param(api, version, path, id=f"{api.key.name}-v{version}-{'.'.join(path)}")
    for api in APIS.values()
    for version in flexible(api)
    for path in texts(library.struct_of(api.request), version)
]


def holding(made: Any, struct: Any, path: tuple[str, ...], text: str) -> Any:
    """A message with one row in each list on the way, and the text at its end."""
    name, *rest = path
    field = struct.fields[name]
    inner = field.array_of if field.is_array() else field
    value = holding(inner.data_class(), inner, tuple(rest), text) if rest else text
    setattr(made, name, [value] if field.is_array() else value)
    return made


def is_taken(decode: Callable[[], Any]) -> bool:
    """None is what leaves it to another decoder."""
    try:
        return decode() is not None
    except Malformed:
        return False


@pytest.mark.parametrize(("api", "version", "path"), CASES)
def test_a_string_longer_than_a_record_can_hold_is_malformed(api: Api, version: int, path: tuple[str, ...]) -> None:
    for text, fits in (("x" * LONGEST, True), ("x" * (LONGEST + 1), False), ("é" * 16_384, False)):
        request = holding(api.request(), library.struct_of(api.request), path, text)
        body = codec.encode_response_body(request, version)
        assert is_taken(partial(codec.decode_request, api.key, version, body)) is fits
        by_hand = BY_HAND.get(api.key)
        if by_hand is not None:
            assert is_taken(partial(by_hand, version, memoryview(body))) is fits
