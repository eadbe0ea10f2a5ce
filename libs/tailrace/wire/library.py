"""What only private names of kafka-python tell of a message: the one file that uses them.

Its minor version is pinned for them, and for its compiled decoder (docs/adr/0003-wire-codec.md).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.schemas.fields.codecs.types import BitField


class OwnSchema:
    """Beside ApiMessage: a message with a schema of ours. kafka-python's clients beside it keep their own class."""

    __slots__ = ()

    def __init_subclass__(cls, **options: object) -> None:
        registry: dict[int, object] = ResponseClassRegistry._response_class_registry
        registered = dict(registry)
        super().__init_subclass__(**options)
        registry.clear()
        registry.update(registered)


def struct_of(message: Any) -> Any:
    """The schema of a message or of a row, as a field that has fields."""
    return message._struct


def tagged(struct: Any, version: int) -> dict[int, Any]:
    """The tagged fields (KIP-482) of a struct in this version, by their tags."""
    fields: dict[int, Any] = struct.tagged_fields(version)._tags
    return fields


def compiled_encoder(message: Any, version: int) -> Callable[[Any, Any], None]:
    """The function that encodes such a message's body in this version: called with the message and a buffer."""
    flexible = message.flexible_version_q(version)
    found: Callable[[Any, Any], None] = message._struct.compiled_encode_into(version, compact=flexible, tagged=flexible)
    return found


def encode_by_schema(message: Any) -> None:
    """Such messages are encoded by a walk over their schema from now on: half as fast, and nothing is generated."""
    struct = message._struct
    for version in range(message.min_version, message.max_version + 1):
        flexible = message.flexible_version_q(version)
        walk = partial(struct.encode_into, version=version, compact=flexible, tagged=flexible)
        struct._compiled_encoders[version, flexible, flexible] = walk


def set_version(message: Any, version: int) -> None:
    """Says in which version a message is encoded, also one that the library decoded."""
    # Its API_VERSION property wants a header slot, which messages it decoded do not have.
    message._header = None
    message._version = version


def class_of(message: Any) -> Any:
    """The class of the objects that are messages of one API."""
    return message[None]


def bits_of(number: int) -> set[int] | None:
    """What a bit field holds; None for the one that says nothing."""
    found: set[int] = BitField.from_32_bit_field(number)
    return None if found == {31} else found
