"""Variable-length integers as Kafka writes them: seven bits a byte, the lowest first (protocol guide; KIP-482).

Unsigned ones stand in messages and metadata records, zigzag ones in the records of a batch. IndexError is raised where
the bytes end too early, so that a reader in a hot loop needs no check of its own.
"""

from tailrace.wire.malformed import Malformed
from tailrace.wire.pieces import Bytes

_MAX_UNSIGNED_SHIFT = 28  # of the fifth byte
_MAX_ZIGZAG_SHIFT = 63  # of the tenth


def read_unsigned(data: Bytes, position: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes: (value, position behind it). Raises IndexError, Malformed."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > _MAX_UNSIGNED_SHIFT:
            raise Malformed("varint longer than five bytes")


def write_unsigned(output: bytearray, value: int) -> None:
    """Appends value, which is not negative."""
    while value >= 0x80:
        output.append(value & 0x7F | 0x80)
        value >>= 7
    output.append(value)


def unsigned(value: int) -> bytes:
    """The bytes of write_unsigned."""
    if value < 0x80:
        return bytes((value,))
    output = bytearray()
    write_unsigned(output, value)
    return bytes(output)


def read_zigzag(data: Bytes, position: int) -> tuple[int, int]:
    """A zigzag varint of up to 64 bits: (value, position behind it). IndexError if it does not end."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value = byte & 0x7F
    shift = 7
    while shift <= _MAX_ZIGZAG_SHIFT:
        position += 1
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position + 1
        shift += 7
    raise IndexError


def write_zigzag(output: bytearray, value: int) -> None:
    """Appends value in zigzag order: 0, -1, 1, -2, ..."""
    rest = (value << 1) if value >= 0 else ((-value << 1) - 1)
    if rest < 0x80:
        output.append(rest)
        return
    write_unsigned(output, rest)
