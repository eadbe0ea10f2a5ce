"""What one config key is: name, type, default, allowed values, who may change it, and whether Tailrace honours it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, IntEnum

from tailrace.config.hosts import url_has_password
from tailrace.config.validators import ThrottledReplicas, Validator, Value


class ConfigError(ValueError):
    """A setting that cannot be used; its text is one sentence for the person who wrote it."""


class Type(IntEnum):
    """Numbers as DescribeConfigs v3 sends them (KIP-569), but for URL, which is a PASSWORD to clients."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9
    URL = 10

    @property
    def wire_type(self) -> int:
        return Type.PASSWORD if self is Type.URL else self


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class ConfigScope(Enum):
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


LONG_MAX = 2**63 - 1
HIDDEN = "[hidden]"  # as Kafka writes a password
_INTEGER_BITS = {Type.SHORT: 16, Type.INT: 32, Type.LONG: 64}


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker key that a topic or group key falls back to; `factor` turns its unit into the topic key's."""

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True)
class ConfigDef:
    """One row of the table. `default` None means unset; `internal` keys work but are not described to clients;
    `obeyed_by` is the module that reads the key, None for a key that has no effect yet."""

    name: str
    type: Type
    default: Value
    validator: Validator | None
    importance: Importance
    dynamic: Dynamic
    doc: str
    obeyed_by: str | None = None
    scope: ConfigScope = ConfigScope.BROKER
    synonyms: tuple[Synonym, ...] = ()
    internal: bool = False

    @property
    def honoured(self) -> bool:
        return self.obeyed_by is not None

    @property
    def attribute(self) -> str:
        """How code spells the key: `min_insync_replicas`."""
        return self.name.replace(".", "_").replace("-", "_")

    @property
    def sensitive(self) -> bool:
        """Whether the value is shown nowhere: a password, or a URL, which may hold one."""
        return self.type in (Type.PASSWORD, Type.URL)

    def is_secret(self, text: str) -> bool:
        """Whether this text may stand only in files and in the environment, which other users cannot read."""
        return url_has_password(text) if self.type is Type.URL else self.type is Type.PASSWORD and bool(text)

    @property
    def allowed(self) -> str:
        """The allowed values for people: `a whole number (int), [1,...]`."""
        kind = _KINDS[self.type]
        return kind if self.validator is None else f"{kind}, {self.validator}"

    def parse(self, text: str) -> Value:
        """Turns text into the typed value or raises ConfigError with Kafka's sentence for INVALID_CONFIG."""
        value = typed(self.name, self.type, text)
        if self.validator is None or (refusal := self.validator.refusal(value)) is None:
            return value
        if isinstance(self.validator, ThrottledReplicas):
            refusal = f"{self.name} {refusal}"
        shown = (
            f"[{', '.join(value)}]" if isinstance(value, tuple) and refusal.startswith(self.name) else self.text(value)
        )
        if self.sensitive:
            shown = HIDDEN
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


def typed(name: str, type_: Type, text: str) -> Value:
    """The value that a text is for a key of this type; ConfigError where it is none."""
    text = text.strip(_BLANKS)
    match type_:
        case Type.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise _wrong(name, text, "Expected value to be either true or false")
            return text.lower() == "true"
        case Type.INT | Type.SHORT | Type.LONG:
            return _integer(name, type_, text)
        case Type.DOUBLE:
            number = _double(text)
            if number is None:
                raise _wrong(name, text, "Not a number of type DOUBLE")
            return number
        case Type.LIST:
            return _list(name, text)
        case _:
            return text


def _integer(name: str, type_: Type, text: str) -> int:
    limit = 1 << (_INTEGER_BITS[type_] - 1)
    # Java's parser takes the digits of all alphabets, which nobody means.
    if not (_INTEGER.fullmatch(text) and -limit <= int(text) < limit):
        raise _wrong(name, text, f"Not a number of type {type_.name}")
    return int(text)


def _list(name: str, text: str) -> tuple[str, ...]:
    if not text:
        return ()
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    if "" in words:
        raise ConfigError(f"Configuration '{name}' values must not be empty.")
    return words


def _wrong(name: str, text: str, why: str) -> ConfigError:
    return ConfigError(f"Invalid value {text} for configuration {name}: {why}")


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
    Type.URL: "a URL",
}
