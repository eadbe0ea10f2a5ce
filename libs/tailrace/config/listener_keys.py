"""Keys of one listener: `listener.name.external.ssl.key.password` stands over `ssl.key.password` for EXTERNAL.

As in Apache Kafka the listener's name is in lower case there.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tailrace.config.definition import ConfigDef
from tailrace.config.definitions import DEFINITIONS

PREFIX: Final = "listener.name."
_VARIABLE: Final = "KAFKA_LISTENER_NAME_"
_NAME: Final = re.compile("[a-z0-9_-]+")

KEYS: Final = frozenset(
    {
        "sasl.enabled.mechanisms",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.principal.mapping.rules",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""What each listener may have for itself."""
_SUFFIXES: Final = {f"_{DEFINITIONS[key].attribute.upper()}": key for key in KEYS}


class ListenerKey(NamedTuple):
    """A key, and the listener that has it for itself; "" for all."""

    listener: str
    key: str


def split(name: str) -> ListenerKey | None:
    """The parts of a config's name; None for what is no config."""
    if name in DEFINITIONS:
        return ListenerKey("", name)
    if not name.startswith(PREFIX):
        return None
    listener, _, key = name.removeprefix(PREFIX).partition(".")
    return ListenerKey(listener, key) if key in KEYS and _NAME.fullmatch(listener) else None


def definition_of(name: str) -> ConfigDef | None:
    """What a value of this config must be; None for what is no config."""
    parts = split(name)
    return None if parts is None else DEFINITIONS[parts.key]


def variable_of(name: str) -> str | None:
    """The config that an environment variable stands for, if it is a listener's: KAFKA_LISTENER_NAME_EXTERNAL_…."""
    if not name.startswith(_VARIABLE):
        return None
    for suffix, key in _SUFFIXES.items():
        listener = name[len(_VARIABLE) : -len(suffix)].lower()
        if name.endswith(suffix) and _NAME.fullmatch(listener):
            return f"{PREFIX}{listener}.{key}"
    return None
