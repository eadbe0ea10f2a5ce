"""What only private names of kafka-python tell of a message: the one file that uses them.

Its minor version is pinned for them, and for its compiled decoder (docs/adr/0003-wire-codec.md).
"""

from typing import Any


def struct_of(message: Any) -> Any:
    """The schema of a message or of a row, as a field that has fields."""
    return message._struct


def tagged(struct: Any, version: int) -> dict[int, Any]:
    """The tagged fields (KIP-482) of a struct in this version, by their tags."""
    fields: dict[int, Any] = struct.tagged_fields(version)._tags
    return fields


def set_version(message: Any, version: int) -> None:
    """Says in which version a message is encoded, also one that the library decoded."""
    # Its API_VERSION property wants a header slot, which messages it decoded do not have.
    message._header = None
    message._version = version
