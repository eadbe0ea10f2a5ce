"""What values a key may have: a class for each way in which Kafka's ConfigDef bounds them, and its text."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from tailrace.config.hosts import DatabaseUrl, Host, HostList, RedisUrl, is_host

Value = bool | int | float | str | tuple[str, ...] | None


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
        return f"{_ANY_CASE if self.any_case else ''}[{', '.join(self.words)}]"


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
        if not self.words:
            return "each value once"
        return f"[{', '.join(self.words)}]{'' if self.may_be_empty else _NOT_EMPTY}"


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
            bracketed = host.startswith("[") and host.endswith("]")
            if ":" in host and not bracketed and not address.startswith("unix:"):  # as net.address reads it
                return f"{address} is not host:port or unix:/path: IPv6 is in brackets, as in [::1]:9190"
            if address.startswith("unix:/") or (colon and is_port and is_host(host.strip("[]"))):
                continue
            return f"{address} is not host:port or unix:/path"
        return None

    def __str__(self) -> str:
        return "host:port or unix:/path (IPv6 in brackets)"


Validator = Range | OneOf | Words | NotEmpty | ThrottledReplicas | Addresses | Host | HostList | DatabaseUrl | RedisUrl

_NOT_EMPTY = ", not empty"
_ANY_CASE = "(case insensitive) "
_PLAIN: dict[str, Validator] = {
    str(one): one
    for one in (
        Words(),
        NotEmpty(),
        ThrottledReplicas(),
        Addresses(),
        Host(),
        Host(reachable=True),
        HostList(),
        DatabaseUrl(),
        RedisUrl(),
    )
}


@functools.cache
def validator(text: str, *, of_list: bool) -> Validator:
    """The validator that a cell of the table describes, in the words of its `str`; `of_list`: of a key with a list."""
    if text in _PLAIN:
        return _PLAIN[text]
    inner, _, after = text.removeprefix(_ANY_CASE).removeprefix("[").partition("]")
    low, dots, high = inner.partition(",...")
    if dots:
        return Range(_number(low), _number(high.removeprefix(",")), _number(after.removeprefix(" or ")))
    words = tuple(inner.split(", "))
    return Words(words, may_be_empty=not after) if of_list else OneOf(words, any_case=text.startswith(_ANY_CASE))


def _number(text: str) -> float | None:
    return (float(text) if "." in text else int(text)) if text else None
