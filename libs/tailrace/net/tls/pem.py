"""PEM texts as Kafka takes them (KIP-651): a private key and certificates, from a file or a config's value. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_LINE_CHARS = 64
_CERTIFICATES = frozenset({"CERTIFICATE", "X509 CERTIFICATE"})


class PemBlock(NamedTuple):
    """One part of a PEM text, in lines as OpenSSL wants them."""

    label: str
    text: str

    @property
    def is_key(self) -> bool:
        return self.label.endswith("PRIVATE KEY")

    @property
    def is_certificate(self) -> bool:
        return self.label in _CERTIFICATES

    @property
    def encrypted(self) -> bool:
        """Of a key: whether it needs a password."""
        return self.label.startswith("ENCRYPTED") or "ENCRYPTED" in self.text.partition("\n\n")[0]


def blocks(text: str) -> Iterator[PemBlock]:
    """The parts in their order. A config's value may be all in one line, with or without spaces for its line ends."""
    for label, body in _BLOCK.findall(text):
        if ":" in body:  # the headers of an encrypted key of OpenSSL's old form stand in lines of their own
            yield PemBlock(label, f"-----BEGIN {label}-----{body}-----END {label}-----\n")
            continue
        packed = "".join(body.split())
        lines = "\n".join(packed[at : at + _LINE_CHARS] for at in range(0, len(packed), _LINE_CHARS))
        yield PemBlock(label, f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n")


def key_and_chain(text: str) -> tuple[PemBlock | None, list[PemBlock]]:
    """The first private key, and the certificates in their order."""
    parts = list(blocks(text))
    key = next((part for part in parts if part.is_key), None)
    return key, [part for part in parts if part.is_certificate]
