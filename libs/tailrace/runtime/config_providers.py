"""Values of configs from files (KIP-297): ${directory:DIR:FILE} and ${file:PROPERTIES:KEY}, as a secret is mounted."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

from tailrace.config import ConfigError, properties

_KEY: Final = "config.providers"
_MOST_BYTES: Final = 1_048_576
_REFERENCE: Final = re.compile(r"\$\{([^}:]*):(?:([^}]*):)?([^}:]*)\}")  # as Kafka's ConfigTransformer has it


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MOST_BYTES).decode()


def _of_directory(path: str, key: str) -> str:
    """A file of a folder, as Kubernetes and Docker mount secrets; without the end of its last line."""
    if Path(key).name != key:
        raise ValueError(f"{key!r} is not the name of a file")
    return _read(Path(path) / key).removesuffix("\n").removesuffix("\r")


def _of_file(path: str, key: str) -> str:
    """A value of a .properties file."""
    found = properties.parse(_read(Path(path)))
    if key not in found:
        raise ValueError(f"{path} has no {key}")
    return found[key][0]


PROVIDERS: Final[Mapping[str, Callable[[str, str], str]]] = {"directory": _of_directory, "file": _of_file}


def resolve(text: str, providers: Collection[str], where: str) -> str:
    """The value with the references of those providers replaced; others stay as they are. Raises ConfigError."""
    if unknown := [name for name in providers if name not in PROVIDERS]:
        raise ConfigError(f"{_KEY} has {', '.join(unknown)}, and these are known: {', '.join(sorted(PROVIDERS))}.")

    def value_of(found: re.Match[str]) -> str:
        name, path, key = found.groups()
        if name not in providers:
            return found[0]
        try:
            return PROVIDERS[name](path or "", key)
        except OSError as error:
            raise ConfigError(f"{found[0]} in {where} cannot be read: {error.strerror}.") from None
        except ValueError as error:  # also of what is not UTF-8
            raise ConfigError(f"{found[0]} in {where} cannot be read: {error}.") from None

    return _REFERENCE.sub(value_of, text)
