"""ssl.principal.mapping.rules (KIP-371): from a certificate's subject to a user's name, by the first rule that fits."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tailrace.config import ConfigError

DEFAULT: Final = "DEFAULT"
_RULE: Final = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_BETWEEN: Final = re.compile(r"\s*(?:,\s*|$)")
_PART: Final = re.compile(r"\$(\d)|\\(.)|(.)", re.DOTALL)
_CASES: Final[dict[str, Callable[[str], str]]] = {"L": str.lower, "U": str.upper, "": str}

# A subject -> the name, or None where the rule does not fit.
Rule = Callable[[str], str | None]


class NoRuleFits(ValueError):
    """A client whose subject no rule takes is refused, as in Apache Kafka."""


class PrincipalRules:
    """Raises ConfigError for what Apache Kafka refuses, and for patterns that RE2 does not know."""

    def __init__(self, text: str) -> None:
        self._rules: list[Rule] = []
        at = 0
        text = text.strip()
        while at < len(text):
            if text.startswith(DEFAULT, at):
                self._rules.append(str)
                at += len(DEFAULT)
            elif found := _RULE.match(text, at):
                self._rules.append(_rule(*found.groups()))
                at = found.end()
            between = _BETWEEN.match(text, at)
            if between is None:
                raise ConfigError(f"ssl.principal.mapping.rules is no list of rules from {text[at : at + 40]!r} on.")
            at = max(between.end(), at + 1)

    def name(self, subject: str) -> str:
        """Raises NoRuleFits."""
        for rule in self._rules:
            if (name := rule(subject)) is not None:
                return name
        raise NoRuleFits(f"no rule of ssl.principal.mapping.rules fits {subject}")


def _rule(pattern: str, replacement: str, case: str) -> Rule:
    import re2  # late: most listeners have no rules

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        raise ConfigError(f"ssl.principal.mapping.rules: {pattern!r} is no pattern that RE2 knows.") from None
    change = _CASES[case]

    def apply(subject: str) -> str | None:
        return change(_replaced(subject, compiled, replacement)) if compiled.fullmatch(subject) else None

    return apply


def _replaced(subject: str, pattern: re.Pattern[str], replacement: str) -> str:
    """As Java's replaceAll, which Kafka calls once the whole has matched: a part that matches by itself may be less."""
    parts, at = [], 0
    for found in pattern.finditer(subject):
        parts += [subject[at : found.start()], _filled(replacement, found)]
        at = found.end()
    return "".join(parts) + subject[at:]


def _filled(replacement: str, found: re.Match[str]) -> str:
    """$1 is a group, a backslash makes the next character plain; no such group stays as it is."""
    parts = []
    for part in _PART.finditer(replacement):
        group, escaped, plain = part.groups()
        if group is None:
            parts.append(escaped or plain)
        elif int(group) <= len(found.groups()):
            parts.append(found[int(group)] or "")
        else:
            parts.append(part[0])
    return "".join(parts)
