"""The ceilings: every list of every version of every API has one, and a request above it is refused when decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.largest import Largest, lists_of
from tailrace.wire import codec, decoder, limits
from tailrace.wire.apis import APIS, INTERNAL_APIS, Api, ApiKey
from tailrace.wire.header import parse_request_header
from tailrace.wire.hot.fetch import decode_fetch
from tailrace.wire.hot.produce import ManyRows, decode_produce
from tailrace.wire.limits import CLOSED, CODES, DEFAULT, EXCEPTIONS, HIGHEST, Ceiling, ceiling
from tailrace.wire.malformed import Malformed, TooManyRows

VERSIONS: dict[tuple[int, str], list[int]] = {}
for of in INTERNAL_APIS.values():
    for served in range(of.min_version, of.max_version + 1):
        for listed in lists_of(of, served):
            VERSIONS.setdefault((of.key, listed), []).append(served)


def body_of(largest: Largest, rows: int) -> memoryview:
    frame = memoryview(largest.with_rows(rows))[4:]
    return frame[parse_request_header(frame).body_offset :]


def decoded(largest: Largest, rows: int) -> Any:
    return codec.decode_request(largest.api.key, largest.version, body_of(largest, rows))


def test_every_exception_is_a_list_of_an_api_and_says_what_the_rule_does_not() -> None:
    assert EXCEPTIONS.keys() <= VERSIONS.keys()
    for (key, path), found in EXCEPTIONS.items():
        assert DEFAULT <= found.most <= HIGHEST, (key, path)
        assert found.above in {CLOSED, *CODES}, (key, path)
        assert found.most == HIGHEST or found.above == "POLICY_VIOLATION", (key, path)


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every ceiling is a thousand times as low."""

    def lower(key: int, path: str) -> Ceiling:
        found = ceiling(key, path)
        return found._replace(most=found.most // 1000)

    monkeypatch.setattr(limits, "HIGHEST", HIGHEST // 1000)
    monkeypatch.setattr(decoder, "ceiling", lower)
    decoder.decoder.cache_clear()
    yield
    decoder.decoder.cache_clear()


@pytest.mark.parametrize("api", INTERNAL_APIS.values(), ids=lambda api: ApiKey(api.key).name)
@pytest.mark.usefixtures("lowered")
def test_a_request_at_the_ceiling_is_decoded_and_one_above_is_refused(api: Api) -> None:
    """Every list in every version that has it."""
    for path in [path for key, path in VERSIONS if key == api.key]:
        for version in VERSIONS[api.key, path]:
            largest = Largest(api, path, version)
            most, above = largest.ceiling.most // 1000, largest.ceiling.above
            assert decoded(largest, most) is not None
            with pytest.raises(Malformed) as refused:
                decoded(largest, most + 1)
            if above == CLOSED:
                assert type(refused.value) is Malformed
            else:
                assert isinstance(refused.value, TooManyRows)
                assert refused.value.code == CODES[above]
                assert path in str(refused.value)
            with pytest.raises(Malformed, match="more rows than a request may have") as closed:
                decoded(largest, HIGHEST // 1000 + 1)
            assert type(closed.value) is Malformed


@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.FETCH])
@pytest.mark.parametrize("flexible", [False, True])
def test_the_decoders_by_hand_have_the_same_ceilings(key: ApiKey, flexible: bool) -> None:
    api = APIS[key]
    decode: Any = decode_produce if key == ApiKey.PRODUCE else decode_fetch
    for path in [path for of, path in VERSIONS if of == key]:
        version = api.max_version if flexible else api.flexible_from - 1
        most = ceiling(key, path).most
        assert decode(version, body_of(Largest(api, path, version), most))
        with pytest.raises(Malformed, match="more topics or partitions than a request may have"):
            decode(version, body_of(Largest(api, path, version), most + 1))


def test_a_produce_of_more_rows_than_its_reader_takes_at_once_is_not_malformed() -> None:
    largest = Largest(APIS[ApiKey.PRODUCE], "topic_data.partition_data", 13)
    with pytest.raises(ManyRows):
        decode_produce(13, body_of(largest, 500), most_rows=500)


def test_the_rows_of_a_list_are_counted_over_the_whole_request() -> None:
    """Many topics of a few partitions each are as much work as one topic of many."""
    topic = INTERNAL_APIS[ApiKey.OFFSET_FETCH].request.OffsetFetchRequestGroup.OffsetFetchRequestTopics  # type: ignore[attr-defined]
    api: Api = APIS[ApiKey.OFFSET_FETCH]
    for each, taken in ((200, True), (201, False)):
        topics = [topic(name=f"t{number}", partition_indexes=list(range(each))) for number in range(100)]
        group: Any = api.request.OffsetFetchRequestGroup(group_id="g", topics=topics)  # type: ignore[attr-defined]
        frame = memoryview(codec.encode_request(api.request(groups=[group], require_stable=False), 8, 1, "c"))[4:]
        body = frame[parse_request_header(frame).body_offset :]
        if taken:
            assert codec.decode_request(api.key, 8, body).groups
        else:
            with pytest.raises(Malformed):
                codec.decode_request(api.key, 8, body)


@pytest.mark.parametrize(
    ("key", "path", "rows"),
    [
        (ApiKey.FETCH, "topics.partitions", 10_000),  # a consumer of so many
        (ApiKey.LIST_OFFSETS, "topics.partitions", 20_000),
        (ApiKey.OFFSET_COMMIT, "topics.partitions", 20_000),
        (ApiKey.OFFSET_COMMIT, "topics", 20_000),
        (ApiKey.OFFSET_FETCH, "groups.topics.partition_indexes", 20_000),
        (ApiKey.OFFSET_FETCH, "groups.topics", 20_000),
        (ApiKey.METADATA, "topics", 20_000),
        (ApiKey.CREATE_TOPICS, "topics", 10_000),
        (ApiKey.DESCRIBE_CONFIGS, "resources", 20_000),  # all topics of such a cluster
    ],
)
def test_what_large_clients_need_is_below_the_ceilings(key: ApiKey, path: str, rows: int) -> None:
    largest = Largest(APIS[key], path, APIS[key].max_version)
    assert decoded(largest, rows) is not None
