"""What one config key is: name, type, default, allowed values, who may change it, and whether Tailrace honours it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum

from tailrace.config.hosts import DatabaseUrl, Host, Hosts, is_host

Value = bool | int | float | str | tuple[str, ...] | None


class ConfigError(ValueError):
    """A setting that cannot be used; its text is one sentence for the person who wrote it."""


class Type(IntEnum):
    """Numbers as DescribeConfigs v3 sends them (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Scope(Enum):
    """Where a key may be set. OURS are broker-like keys that Kafka does not know."""

    BROKER = "broker"
    TOPIC = "topic"
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"
    OURS = "ours"


class Dynamic(Enum):
    """Update mode of a broker config (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers between two bounds, both allowed; None leaves a side open, `also` is one more allowed value."""

    low: float | None = None
    high: float | None = None
    also: float | None = None

    def refusal(self, value: Value) -> str | None:
        assert isinstance(value, int | float)
        if self.also is not None:
            fits = value == self.also or self.low is None or self.high is None or self.low <= value <= self.high
            return None if fits else f"Value must be between {self.low} and {self.high} or equal to {self.also}"
        if self.low is not None and value < self.low:
            return f"Value must be at least {self.low}"
        if self.high is not None and value > self.high:
            return f"Value must be no more than {self.high}"
        return None

    def __str__(self) -> str:
        bounds = [str(bound) for bound in (self.low, "...", self.high) if bound is not None]
        return f"[{','.join(bounds)}]" + (f" or {self.also}" if self.also is not None else "")


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some words."""

    words: tuple[str, ...]
    any_case: bool = False

    def refusal(self, value: Value) -> str | None:
        assert isinstance(value, str)
        if value in self.words:
            return None
        if not self.any_case:
            return f"String must be one of: {', '.join(self.words)}"
        if value.upper() in (word.upper() for word in self.words):
            return None
        return f"String must be one of (case insensitive): {', '.join(self.words)}"

    def __str__(self) -> str:
        return f"{'(case insensitive) ' if self.any_case else ''}[{', '.join(self.words)}]"


@dataclass(frozen=True, slots=True)
class Words:
    """A list whose members come from a fixed set, or from anywhere if that is empty; a repeated one counts once."""

    words: tuple[str, ...] = ()
    may_be_empty: bool = True

    def refusal(self, value: Value) -> str | None:
        assert isinstance(value, tuple)
        if not value and not self.may_be_empty:
            return "Configuration must not be empty."
        if self.words and any(word not in self.words for word in value):
            return f"String must be one of: {', '.join(self.words)}"
        return None

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]" if self.words else "each value once"


@dataclass(frozen=True, slots=True)
class NotEmpty:
    """A string or list with something in it."""

    def refusal(self, value: Value) -> str | None:
        if value is None or value:
            return None
        return "Configuration must not be empty." if isinstance(value, tuple) else "String must be non-empty"

    def __str__(self) -> str:
        return "not empty"


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """`partition:broker` pairs, `*`, or nothing (KIP-73)."""

    def refusal(self, value: Value) -> str | None:
        assert isinstance(value, tuple)
        if value in ((), ("*",)):
            return None
        for pair in value:
            partition, colon, broker = pair.partition(":")
            if not (colon and partition.strip().isdigit() and broker.strip().isdigit()):
                return (
                    "must be the literal '*' or a list of replicas in the following format: "
                    "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
                )
        return None

    def __str__(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],... or *"


@dataclass(frozen=True, slots=True)
class Addresses:
    """host:port or unix:/path, with commas."""

    def refusal(self, value: Value) -> str | None:
        assert isinstance(value, tuple)
        for address in value:
            host, colon, port = address.rpartition(":")
            is_port = port.isdecimal() and 0 < int(port) <= 65_535
            if address.startswith("unix:/") or (colon and is_port and is_host(host.strip("[]"))):
                continue
            return f"{address} is not host:port or unix:/path"
        return None

    def __str__(self) -> str:
        return "host:port or unix:/path"


Validator = Range | OneOf | Words | NotEmpty | ThrottledReplicas | Addresses | Host | Hosts | DatabaseUrl

_INTEGER_BITS = {Type.SHORT: 16, Type.INT: 32, Type.LONG: 64}


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker key that a topic or group key falls back to; `factor` turns its unit into the topic key's."""

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True)
class ConfigDef:
    """One row of the table. `default` None means unset; `internal` keys work but are not described to clients."""

    name: str
    type: Type
    default: Value
    validator: Validator | None
    importance: Importance
    dynamic: Dynamic
    doc: str
    honoured: bool = False
    scope: Scope = Scope.BROKER
    synonyms: tuple[Synonym, ...] = ()
    internal: bool = False

    @property
    def attribute(self) -> str:
        """How code spells the key: `min_insync_replicas`."""
        return self.name.replace(".", "_").replace("-", "_")

    @property
    def sensitive(self) -> bool:
        return self.type is Type.PASSWORD

    @property
    def allowed(self) -> str:
        """The allowed values for people: `a whole number (int), [1,...]`."""
        kind = _KINDS[self.type]
        return kind if self.validator is None else f"{kind}, {self.validator}"

    def parse(self, text: str) -> Value:
        """Turns text into the typed value or raises ConfigError with Kafka's sentence for INVALID_CONFIG."""
        value = self._typed(text)
        if self.validator is None or (refusal := self.validator.refusal(value)) is None:
            return value
        if isinstance(self.validator, ThrottledReplicas):
            refusal = f"{self.name} {refusal}"
        shown = (
            f"[{', '.join(value)}]" if isinstance(value, tuple) and refusal.startswith(self.name) else self.text(value)
        )
        raise ConfigError(f"Invalid value {shown} for configuration {self.name}: {refusal}")

    def text(self, value: Value) -> str | None:
        """The value as Kafka writes it in DescribeConfigs; None where there is none."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        if isinstance(value, float):  # as Java writes it
            return str(value).replace("e+", "E").replace("nan", "NaN").replace("inf", "Infinity")
        return str(value)

    def _typed(self, text: str) -> Value:
        text = text.strip(_BLANKS)
        match self.type:
            case Type.BOOLEAN:
                if text.lower() not in ("true", "false"):
                    raise self._wrong(text, "Expected value to be either true or false")
                return text.lower() == "true"
            case Type.INT | Type.SHORT | Type.LONG:
                return self._integer(text)
            case Type.DOUBLE:
                number = _double(text)
                if number is None:
                    raise self._wrong(text, "Not a number of type DOUBLE")
                return number
            case Type.LIST:
                return self._list(text)
            case _:
                return text

    def _integer(self, text: str) -> int:
        limit = 1 << (_INTEGER_BITS[self.type] - 1)
        # Java's parser takes the digits of all alphabets, which nobody means.
        if not (_INTEGER.fullmatch(text) and -limit <= int(text) < limit):
            raise self._wrong(text, f"Not a number of type {self.type.name}")
        return int(text)

    def _list(self, text: str) -> tuple[str, ...]:
        if not text:
            return ()
        words = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
        if "" in words:
            raise ConfigError(f"Configuration '{self.name}' values must not be empty.")
        return words

    def _wrong(self, text: str, why: str) -> ConfigError:
        return ConfigError(f"Invalid value {text} for configuration {self.name}: {why}")


_BLANKS = "".join(map(chr, range(33)))  # what Java's String.trim takes away
_INTEGER = re.compile("[+-]?[0-9]{1,20}")
_DOUBLE = re.compile(
    "([+-]?)(NaN|Infinity|[0-9]+[.]?[0-9]*(?:[eE][+-]?[0-9]+)?|[.][0-9]+(?:[eE][+-]?[0-9]+)?)([fFdD]?)"
)


def _double(text: str) -> float | None:
    """Java's Double.parseDouble but for hexadecimal numbers: no `inf`, no `1_0`, but `0.5f`."""
    found = _DOUBLE.fullmatch(text)
    if found is None or (found[3] and found[2] in ("NaN", "Infinity")):
        return None
    return float(found[1] + found[2])  # "Infinity" and "NaN" are words of Python's, too


_KINDS = {
    Type.BOOLEAN: "true or false",
    Type.STRING: "text",
    Type.INT: "a whole number (int)",
    Type.SHORT: "a whole number (short)",
    Type.LONG: "a whole number (long)",
    Type.DOUBLE: "a number",
    Type.LIST: "a list with commas",
    Type.CLASS: "a class name",
    Type.PASSWORD: "a password",
}


def table(*rows: Sequence[ConfigDef]) -> dict[str, ConfigDef]:
    """Merges the areas' rows into one table; a key that stands twice is our bug."""
    merged: dict[str, ConfigDef] = {}
    for area in rows:
        for definition in area:
            assert definition.name not in merged, definition.name
            merged[definition.name] = definition
    return merged
