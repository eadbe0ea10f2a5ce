"""A large message is the one that the codec writes, and nothing copies it as a whole."""

from __future__ import annotations

import ctypes
import errno
import mmap
from pathlib import Path
from typing import Any

import pytest

from support.samples import sample_request, sample_response
from tailrace.wire import codec, encode_buffer
from tailrace.wire.apis import INTERNAL_APIS, Api
from tailrace.wire.encode_buffer import STEP_BYTES, EncodeBuffer, mapped, received

EVERY = [
    pytest.param(api, version, id=f"{api.key.name}-v{version}")
    for api in INTERNAL_APIS.values()
    for version in range(api.min_version, api.max_version + 1)
]


@pytest.fixture
def grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer that has to grow with nearly every field, in steps of a few bytes."""
    monkeypatch.setattr(encode_buffer, "_FIRST_BYTES", 9)
    monkeypatch.setattr(encode_buffer, "STEP_BYTES", 7)


@pytest.mark.usefixtures("grows")
@pytest.mark.parametrize(("api", "version"), EVERY)
def test_every_answer_and_request_is_what_the_codec_writes(api: Api, version: int) -> None:
    small = codec.encode_response(sample_response(api, version), version, 7)
    assert codec.encode_large_response(sample_response(api, version), version, 7) == small
    small = codec.encode_request(sample_request(api, version), version, 7, "me")
    assert codec.encode_large_request(sample_request(api, version), version, 7, "me") == small


def test_a_body_written_by_hand_gets_its_head_where_it_lies() -> None:
    for key, version in ((3, 8), (3, 9)):
        out = EncodeBuffer()
        for _ in range(40):
            out += bytes(range(250))
        frame = out.response_frame(key, version, 7)
        assert frame.obj is out.buf
        assert frame == codec.response_frame(key, version, 7, bytes(range(250)) * 40)
        assert out.body == bytes(range(250)) * 40


def test_a_large_one_grows_by_copies_of_a_step_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []

    class Noted:
        """A memoryview whose slices say how long they are."""

        def __init__(self, memory: Any) -> None:
            self._view = memoryview(memory)

        def __enter__(self) -> Noted:
            return self

        def __exit__(self, *_: object) -> None:
            self._view.release()

        def __getitem__(self, at: slice) -> memoryview:
            return self._view[at]

        def __setitem__(self, at: slice, data: memoryview) -> None:
            copied.append(len(data))
            self._view[at] = data

    out = EncodeBuffer()
    monkeypatch.setattr(encode_buffer, "_LARGE_BYTES", STEP_BYTES)
    monkeypatch.setattr(encode_buffer, "memoryview", Noted, raising=False)
    for _ in range(70):
        out += bytes(range(256)) * 256
    monkeypatch.undo()
    assert max(copied) == STEP_BYTES
    assert sum(copied) < 2 * len(out.body)
    assert out.body == bytes(range(256)) * 256 * 70
    assert isinstance(out.buf, mmap.mmap)  # which nobody fills before it is used


def test_memory_for_a_large_frame_is_not_filled_before_its_bytes_come() -> None:
    assert isinstance(received(STEP_BYTES).obj, mmap.mmap)
    assert isinstance(received(4).obj, bytearray)
    assert len(received(STEP_BYTES + 1)) == STEP_BYTES + 1


def test_the_memory_is_of_this_process_alone() -> None:
    memory = mapped(STEP_BYTES)
    at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        span, flags, *_ = line.split()
        first, last = (int(part, 16) for part in span.split("-"))
        if first <= at < last:
            assert flags == "rw-p"
            return
    raise AssertionError("it is nowhere")


def test_where_addresses_count_as_memory_a_buffer_takes_no_more_than_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """RLIMIT_AS, or vm.overcommit_memory=2."""

    def limited(size: int) -> mmap.mmap:
        if size > 8 * STEP_BYTES:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return mapped(size)

    monkeypatch.setattr(encode_buffer, "mapped", limited)
    out = EncodeBuffer()
    for _ in range(3):
        out += bytes(range(256)) * (STEP_BYTES // 256)
    assert out.body == bytes(range(256)) * (3 * STEP_BYTES // 256)
    with pytest.raises(OSError, match="Cannot allocate"):
        out.ensure(8 * STEP_BYTES)
