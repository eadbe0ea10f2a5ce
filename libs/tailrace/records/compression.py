"""Compression codecs of record batches, with a bound on what may come out.

A few kilobytes of zstd can stand for gigabytes, so output goes into a buffer that grows up to the caller's bound.
Snappy is written as Java writes it (xerial blocks) and read in both that and the raw form; lz4 is the frame format with
independent blocks, the only ones Java reads.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from types import ModuleType
from typing import Final

import cramjam

from tailrace.errors import ApiError, ErrorCode

MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_SIZE: Final = 32 * 1024
_XERIAL_COMPATIBLE: Final = 1  # the version at the end of the header; Java refuses a lower one
_INT: Final = Struct(">i")
_FIRST_GUESS: Final = 64 * 1024
_ZSTD_LEVEL: Final = 3
_LZ4_HEADER: Final = Struct("<IBB")
_LZ4_LENGTH: Final = Struct("<I")
_LZ4_MAGIC: Final = 0x184D2204
_LZ4_INDEPENDENT, _LZ4_BLOCK_CHECKSUM, _LZ4_SIZE, _LZ4_CHECKSUM, _LZ4_DICTIONARY = 0x20, 0x10, 0x08, 0x04, 0x01
_LZ4_PLAIN: Final = 0x80000000  # of a block's length: it is not compressed
_OUTPUT_FULL: Final = "failed to write whole buffer"


class Codec(IntEnum):
    """The compression type in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """The bytes as a client would have compressed them; level is the codec's own (KIP-390), None its default."""
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, level=level))
    if codec is Codec.SNAPPY:
        return _compress_xerial(memoryview(data))
    if codec is Codec.LZ4:
        compressor = cramjam.lz4.Compressor(level=level, block_linked=False, content_checksum=False)
        compressor.compress(bytes(data))
        return bytes(compressor.finish())
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL if level is None else level))


def decompress(codec: Codec, data: bytes | bytearray | memoryview, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """The plain bytes; CORRUPT_MESSAGE if they are damaged or (TooManyBytes) more than max_bytes, never allocated."""
    if codec is Codec.NONE:
        if len(data) > max_bytes:
            raise TooManyBytes(max_bytes)
        return bytes(data)
    try:
        if codec is Codec.SNAPPY:
            return _decompress_snappy(memoryview(data), max_bytes)
        return _decompress_stream(
            {Codec.GZIP: cramjam.gzip, Codec.LZ4: cramjam.lz4, Codec.ZSTD: cramjam.zstd}[codec], data, max_bytes
        )
    except cramjam.DecompressionError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"records cannot be decompressed: {error}") from error


def is_one_lz4_frame(data: bytes | bytearray | memoryview) -> bool:
    """Whether whole lz4 data is the one frame of independent blocks that Java reads, and nothing behind it."""
    if len(data) < _LZ4_HEADER.size:
        return False
    magic, flags, _ = _LZ4_HEADER.unpack_from(data)
    if magic != _LZ4_MAGIC or not flags & _LZ4_INDEPENDENT:
        return False
    position = _LZ4_HEADER.size + 1  # a checksum of the header
    position += (8 if flags & _LZ4_SIZE else 0) + (4 if flags & _LZ4_DICTIONARY else 0)
    while position + _LZ4_LENGTH.size <= len(data):
        (length,) = _LZ4_LENGTH.unpack_from(data, position)
        position += _LZ4_LENGTH.size
        if not length:
            return position + (4 if flags & _LZ4_CHECKSUM else 0) == len(data)
        position += (length & ~_LZ4_PLAIN) + (4 if flags & _LZ4_BLOCK_CHECKSUM else 0)
    return False


class TooManyBytes(ApiError):
    """The data is more than max_bytes, and may be sound otherwise."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, f"records decompress to more than {max_bytes} bytes")


def _decompress_stream(codec: ModuleType, data: bytes | bytearray | memoryview, max_bytes: int) -> bytes:
    size = min(max(_FIRST_GUESS, 6 * len(data)), max_bytes)
    while True:
        output = bytearray(size)
        try:
            return bytes(memoryview(output)[: codec.decompress_into(data, output)])
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise
            if size >= max_bytes:
                raise TooManyBytes(max_bytes) from None
        size = min(size * 4, max_bytes)


def _compress_xerial(data: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for position in range(0, len(data), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(data[position : position + _XERIAL_BLOCK_SIZE]))
        parts += (_INT.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, max_bytes: int) -> bytes:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_block(data, 0, max_bytes)
    output = bytearray()
    position = 0
    while position < len(data):
        if data[position] == _XERIAL_MAGIC[0]:  # no length begins so: several streams may follow each other, as in Java
            position = _behind_xerial_header(data, position)
            continue
        if len(data) - position < _INT.size:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, "a snappy block has no length")
        (length,) = _INT.unpack_from(data, position)
        position += _INT.size
        if not 0 < length <= len(data) - position:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, "a snappy block does not fit its bytes")
        output += _decompress_block(data[position : position + length], len(output), max_bytes)
        position += length
    return bytes(output)


def _behind_xerial_header(data: memoryview, position: int) -> int:
    end = position + len(_XERIAL_HEADER)
    header = bytes(data[position:end])
    if len(header) < len(_XERIAL_HEADER) or not header.startswith(_XERIAL_MAGIC):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "a snappy block does not fit its bytes")
    if _INT.unpack_from(header, len(header) - _INT.size)[0] < _XERIAL_COMPATIBLE:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "a snappy stream of a version that Java does not read")
    return end


def _decompress_block(block: memoryview, done: int, max_bytes: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(block)
    if done + size > max_bytes:
        raise TooManyBytes(max_bytes)
    # An element of snappy has two bytes or more and stands for at most 64: the claim itself may be the bomb.
    if size > 64 * len(block):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "a snappy block claims more than it can hold")
    output = bytearray(size)
    return bytes(memoryview(output)[: cramjam.snappy.decompress_raw_into(block, output)])
