"""The sentences of a Markdown page, for checks of its language: no code, no tables, no headings, no link targets."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r"^```.*?^```\s*?$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_NOT_PROSE = re.compile(r"^(?: {4,}\S.*|\s*\|.*|#+ .*)$", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"`[^`]+`")
_CODES = re.compile(r"`…`(?:(?:,| and|, and| or) `…`)+")  # an enumeration of names is one word as well
_BLOCK = re.compile(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ")
_END = re.compile(r"(?<=[.!?])[)*\"]*\s+(?=[\"(*`A-Z0-9])")


def sentences(page: str) -> Iterator[str]:
    """Each sentence of the page in one line; what is in `code` counts as one word and is shown as `…`."""
    for part in (_FENCE, _COMMENT, _NOT_PROSE):
        page = part.sub("\n\n", page)
    page = _LINK.sub(r"\1", page)
    for block in _BLOCK.split(page):
        for sentence in _END.split(_CODES.sub("`…`", _CODE.sub("`…`", " ".join(block.split())))):
            if sentence := sentence.strip("-* "):
                yield sentence


def first_line(page: str) -> str:
    """The first line of text below the page's title."""
    return next(line for line in page.splitlines() if line and not line.startswith(("#", "<!--")))
