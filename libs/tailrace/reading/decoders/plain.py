"""Bytes as text, JSON, hexadecimal digits or base64. Pure.

The types are those of POST …/records, so that a record can be produced again as it was read. `auto` takes the first of
JSON, text and base64 that the bytes are.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple, NoReturn

_DEPTH_MAX: Final = 100


class Encoding(StrEnum):
    """How bytes are to be shown."""

    AUTO = "auto"
    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    BASE64 = "base64"


class Shown(NamedTuple):
    """Bytes as JSON can say them: STRING, JSON, HEX or BINARY (base64), and how many they are."""

    type: str
    data: object
    size: int


def shown(content: bytes, encoding: Encoding = Encoding.AUTO) -> Shown:
    """What is not of the wanted encoding comes as base64, and its type says so."""
    for decode in _DECODERS[encoding]:
        try:
            kind, data = decode(content)
        except (ValueError, RecursionError):
            continue
        return Shown(kind, data, len(content))
    return Shown("BINARY", base64.b64encode(content).decode(), len(content))


def _json(content: bytes) -> tuple[str, object]:
    """Raises ValueError also for numbers that JSON cannot say, and for what cannot be written as UTF-8 again."""
    text = content.decode()
    data = json.loads(text, parse_constant=_no_number, parse_float=_number)
    if "\\u" in text or text.count("[") + text.count("{") > _DEPTH_MAX:
        # Half a surrogate pair, or so deep that it could not be written as part of an answer.
        json.dumps([[[[[[[[data]]]]]]]], ensure_ascii=False).encode()
    return "JSON", data


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _number(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"{text} is too large")
    return found


def _text(content: bytes) -> tuple[str, object]:
    return "STRING", content.decode()


def _hex(content: bytes) -> tuple[str, object]:
    return "HEX", content.hex()


def _base64(content: bytes) -> tuple[str, object]:
    return "BINARY", base64.b64encode(content).decode()


_Decoder = Callable[[bytes], tuple[str, object]]
_DECODERS: Final[Mapping[Encoding, tuple[_Decoder, ...]]] = {
    Encoding.AUTO: (_json, _text),
    Encoding.TEXT: (_text,),
    Encoding.JSON: (_json,),
    Encoding.HEX: (_hex,),
    Encoding.BASE64: (_base64,),
}
