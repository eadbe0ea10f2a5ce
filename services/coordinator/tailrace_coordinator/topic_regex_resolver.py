"""Matches the regular expressions of subscriptions against the names of topics (Kafka's TopicRegexResolver).

RE2 takes time that grows with the text alone, whatever the expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, Final

import re2

from tailrace.errors import ApiError, ErrorCode
from tailrace_coordinator.groups.consumer.expressions import MayDescribe

# Both bound how long the event loop compiles, and a thread matches: RE2 takes most time for classes such as \pL.
_MOST_CHARACTERS: Final = 256
_MOST_PROGRAM_BYTES: Final = 1 << 16
MOST_NAME_BYTES: Final = 500_000  # of the topics of a group's expressions: a record has those of one, a group all
Complain = Callable[[str, str], None]  # an expression, and what is wrong with it


def compiled(expression: str) -> Any:
    """Returns the compiled expression. Raises ApiError INVALID_REGULAR_EXPRESSION."""
    if len(expression) > _MOST_CHARACTERS:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex has {len(expression)} characters, the most are {_MOST_CHARACTERS}.",
        )
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_PROGRAM_BYTES
    try:
        return re2.compile(expression, options)
    except re2.error as wrong:
        why = wrong.args[0] if wrong.args else wrong
        text = why.decode(errors="replace") if isinstance(why, bytes) else why
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {text}.",
        ) from wrong


def matches(
    expressions: Iterable[str],
    names: Sequence[str],
    may_describe: MayDescribe | None = None,
    complain: Complain = lambda expression, why: None,
) -> dict[str, tuple[str, ...]]:
    """Returns the topics of each expression, in the order of their names: it takes time that grows with both.

    may_describe: whether a topic that matches is among them; each is asked for once.

    An expression that the log has and that is refused here has no topics: Apache Kafka takes longer ones. Topics beyond
    MOST_NAME_BYTES are left out.
    """
    left = MOST_NAME_BYTES
    found: dict[str, tuple[str, ...]] = {}
    for expression in expressions:
        try:
            pattern = compiled(expression)
        except ApiError as refused:
            complain(expression, f"matches no topic: {refused.message}")
            found[expression] = ()
            continue
        matching = sorted(name for name in names if pattern.fullmatch(name))
        sizes = accumulate(map(len, matching))
        found[expression] = tuple(name for name, size in zip(matching, sizes, strict=True) if size <= left)
        if len(found[expression]) < len(matching):
            complain(expression, f"matches {len(matching)} topics, and the last ones are left out")
        left -= sum(map(len, found[expression]))
    if may_describe is None:
        return found
    known = {name for name in set[str]().union(*found.values()) if may_describe(name)}
    return {expression: tuple(name for name in some if name in known) for expression, some in found.items()}
