"""The words of a line: what the index holds and what a search compares, by one and the same function.

A line's text is its message, host, service, severity and the values of its fields. Its terms, in lower case, are
- the runs of letters, digits and underscores: `pool-7` gives `pool` and `7`;
- the pieces between blanks, quotes, brackets, commas, semicolons and equal signs, such as `10.0.0.9`,
  `/cart/7`, `pool-7` or a UUID, without punctuation at their ends;
- `name:value` for source, severity, host, service, format and each field.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

LONGEST = 100  # characters; a longer term is its beginning, in the index and in a search
WORD_BREAK = r"[^\p{L}\p{N}_]+"
PIECE_BREAK = r"[\s\"'`()\[\]{}<>,;=|]+"
PIECE_ENDS = r"^[^\p{L}\p{N}_/]+|[^\p{L}\p{N}_/]+$"
NAMED = ("source", "severity", "host", "service", "format")


def text() -> Column:
    """All that a line says, over columns of LOG."""
    return F.lower(F.concat_ws(" ", "message", "host", "service", "severity", F.map_values("fields")))


def terms() -> Column:
    """The distinct terms of a line, over columns of LOG."""
    pieces = F.transform(F.split(text(), PIECE_BREAK), lambda piece: F.regexp_replace(piece, PIECE_ENDS, ""))
    fields = F.transform(F.map_entries("fields"), lambda entry: F.concat_ws(":", entry.key, entry.value))
    columns = F.array(*(F.concat(F.lit(f"{name}:"), F.col(name)) for name in NAMED))
    named = F.transform(F.concat(columns, fields), F.lower)
    every = F.concat(F.split(text(), WORD_BREAK), pieces, named)
    cut = F.transform(every, lambda term: F.left(term, F.lit(LONGEST)))
    return F.array_distinct(F.filter(cut, lambda term: term.isNotNull() & (term != "")))
