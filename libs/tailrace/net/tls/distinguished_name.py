"""What is read of a certificate: its subject as Apache Kafka names a principal, and until when it is valid.

Kafka's principal is X500Principal.getName() of Java: RFC 2253, the last name of the subject first. Python's own view of
a certificate has lost the types of the values, which RFC 2253 needs for names without a keyword.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_STRINGS: Final = frozenset({12, 19, 20, 22, 27, 30})  # UTF8, Printable, T61, IA5, General, BMP
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_OID, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x06, 0xA0, 0x17, 0x18  # tags of DER
_UTC_CENTURY_FROM = 50  # RFC 5280: a year of two digits is 1950 to 2049


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate (DER), as `CN=alice,OU=eng,O=Example`. Raises ValueError for what is none."""
    return ",".join(reversed([_relative(names) for names in _items(_fields(certificate)[4])]))


def not_after_ms(certificate: bytes) -> int:
    """The end of its validity, in milliseconds since 1970. Raises ValueError for what is no certificate."""
    _, until = _items(_fields(certificate)[3])
    tag, text = until[0], _value(until).decode("ascii")
    if tag == _UTC_TIME:
        text = ("19" if int(text[:2]) >= _UTC_CENTURY_FROM else "20") + text
    elif tag != _GENERALIZED_TIME:
        raise ValueError("a certificate's validity is no time")
    return int(datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp() * 1000)


def _fields(certificate: bytes) -> list[bytes]:
    """Serial number, algorithm, issuer, validity, subject and so on, each with tag and length."""
    signed = next(_items(certificate))
    fields = [field for field in _items(signed) if field[0] != _VERSION]
    if len(fields) < 6:  # up to the public key
        raise ValueError("a certificate has too few fields")
    return fields


def _relative(names: bytes) -> str:
    """One relative name: mostly one attribute, `CN=alice`; several are joined by `+`."""
    return "+".join(_attribute(*_items(attribute)) for attribute in _items(names))


def _attribute(kind: bytes, value: bytes) -> str:
    if kind[0] != _OID:
        raise ValueError("a certificate's name has no type")
    oid = _oid(_value(kind))
    keyword = _KEYWORDS.get(oid)
    if keyword is None or value[0] not in _STRINGS:
        return f"{keyword or oid}=#{value.hex()}"
    return f"{keyword}={_escaped(_value(value).decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    """RFC 2253, section 2.4, as Java does it: spaces and returns at either end are escaped one by one."""
    chars: list[str] = []
    for char in text:
        chars += ["\\", char] if char in _ESCAPED else ["\\", "0", "0"] if char == "\0" else [char]
    body = "".join(chars)
    first = len(body) - len(body.lstrip(" \r"))
    last = len(body.rstrip(" \r"))
    return "".join(char if first <= at < last else "\\" + char for at, char in enumerate(body))


def _oid(encoded: bytes) -> str:
    numbers, number = [], 0
    for byte in encoded:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("a certificate's name has an empty type")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _items(of: bytes) -> Iterator[bytes]:
    """The values inside a value, each with its tag and length."""
    data = _value(of)
    at = 0
    while at < len(data):
        start, size = _head(data, at)
        if start + size > len(data):
            raise ValueError("a certificate ends too early")
        yield data[at : start + size]
        at = start + size


def _value(of: bytes) -> bytes:
    start, size = _head(of, 0)
    return of[start : start + size]


def _head(data: bytes, at: int) -> tuple[int, int]:
    """Where the value begins whose tag is at `at`, and its size (DER: definite lengths)."""
    if at + 2 > len(data):
        raise ValueError("a certificate ends too early")
    size, start = data[at + 1], at + 2
    if size & 0x80:
        digits = size & 0x7F
        if not 1 <= digits <= 4 or start + digits > len(data):  # 4 GiB are enough
            raise ValueError("a certificate has a bad length")
        size, start = int.from_bytes(data[start : start + digits], "big"), start + digits
    return start, size
