"""Every API can refuse a request in every version it serves."""

from __future__ import annotations

import pytest

from support.samples import sample_request
from tailrace.errors import ErrorCode
from tailrace.wire import codec
from tailrace.wire.apis import INTERNAL_APIS, Api, ApiKey
from tailrace.wire.refuse import refuse

CASES = [
    pytest.param(api, version, id=f"{api.key.name}-v{version}")
    for api in INTERNAL_APIS.values()
    if api.key is not ApiKey.API_VERSIONS  # refused with a v0 body, tested with the server
    for version in range(api.min_version, api.max_version + 1)
]


# Those versions have no error code outside their partitions or log dirs.
NO_CODE_AT_THE_TOP = {(ApiKey.FETCH, v) for v in range(4, 7)}
NO_CODE_AT_THE_TOP |= {(ApiKey.DESCRIBE_LOG_DIRS, 1), (ApiKey.DESCRIBE_LOG_DIRS, 2)}


@pytest.mark.parametrize(("api", "version"), CASES)
def test_a_refusal_carries_its_code_in_every_version(api: Api, version: int) -> None:
    frame = codec.encode_request(sample_request(api, version), version, 1, "me")
    body = codec.decode_request(api.key, version, memoryview(frame)[codec_body_offset(frame) + 4 :])
    answer = refuse(body, api.key, version, ErrorCode.NOT_CONTROLLER, "not here")
    wire = codec.encode_response(answer, version, 7)
    decoded = codec.decode_response(api.key, version, codec.response_body(api.key, version, wire[4:]))
    if (api.key, version) in NO_CODE_AT_THE_TOP:
        return
    assert str(int(ErrorCode.NOT_CONTROLLER)) in str(decoded.to_dict())


def codec_body_offset(frame: bytes) -> int:
    from tailrace.wire.header import parse_request_header

    return parse_request_header(memoryview(frame)[4:]).body_offset


@pytest.mark.parametrize(("api", "version"), CASES)
def test_a_truncated_or_extended_body_is_malformed(api: Api, version: int) -> None:
    frame = codec.encode_request(sample_request(api, version), version, 1, "me")
    body = frame[codec_body_offset(frame) + 4 :]
    codec.decode_request(api.key, version, body)
    for cut in range(len(body)):
        with pytest.raises(codec.Malformed):
            codec.decode_request(api.key, version, body[:cut])
    if api.key == ApiKey.METADATA and version >= 9:
        codec.decode_request(api.key, version, b"\x00\x00\x00\x00\x01\x00\x00")  # librdkafka 2.16: all topics
        return
    with pytest.raises(codec.Malformed):
        codec.decode_request(api.key, version, body + b"\x00")
