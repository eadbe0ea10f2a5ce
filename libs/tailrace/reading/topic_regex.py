"""Topics by a regular expression of RE2, which must match the whole name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

# Both bound the time that a search takes: RE2 takes most for classes such as \pL.
_MOST_CHARACTERS: Final = 256
_MOST_PROGRAM_BYTES: Final = 1 << 16


def matching_topics(expression: str, names: Iterable[str]) -> list[str]:
    """The names that match, in order. Raises ValueError for what is no expression, or one that is too large."""
    pattern = compiled(expression)
    return sorted(name for name in names if pattern.fullmatch(name))


@lru_cache(maxsize=16)
def compiled(expression: str) -> Any:
    """A pattern of RE2 whose cost is bounded. Raises ValueError likewise."""
    import re2  # here, as few that import this module need it

    if len(expression) > _MOST_CHARACTERS:
        raise ValueError(f"an expression has {_MOST_CHARACTERS} characters at most")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_PROGRAM_BYTES
    try:
        return re2.compile(expression, options)
    except re2.error:
        raise ValueError(f"{expression}: not a regular expression in RE2's syntax") from None
