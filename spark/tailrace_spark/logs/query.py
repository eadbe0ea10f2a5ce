"""The search language: error AND (timeout OR "connection reset") NOT service:cart trace*.

Words side by side are both wanted. Quotes want the words in that order, with what is between them. A `*` at the end
takes every word that begins so. `name:value` asks a field. Case does not matter, except in AND, OR and NOT.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tailrace_spark.logs.terms import LONGEST
from tailrace_spark.refusal import Refusal

_WORD = re.compile(r"\w+")  # what terms.WORD_BREAK leaves
_PIECE_BREAK = re.compile(r"[\s\"'`()\[\]{}<>,;=|]")
_PIECE_ENDS = re.compile(r"^[^\w/]+|[^\w/]+$")
_TOKEN = re.compile(r'\s*(?:(?P<phrase>"[^"]*")|(?P<open>\()|(?P<close>\))|(?P<word>[^\s()"]+))')


@dataclass(frozen=True)
class Term:
    """A term as in the index, or with `prefix` all that begin so."""

    text: str
    prefix: bool = False


@dataclass(frozen=True)
class Phrase:
    """Text that is there as it is, at the edges of words."""

    text: str

    @property
    def words(self) -> tuple[Term, ...]:
        """Each of which a line with the phrase has."""
        return tuple(dict.fromkeys(Term(word[:LONGEST]) for word in _WORD.findall(self.text)))


@dataclass(frozen=True)
class And:
    """All of them."""

    parts: tuple[Query, ...]


@dataclass(frozen=True)
class Or:
    """One of them at least."""

    parts: tuple[Query, ...]


@dataclass(frozen=True)
class Not:
    """The lines without it."""

    part: Query


Query = Term | Phrase | And | Or | Not


def parse(text: str) -> Query:
    """Raises Refusal."""
    tokens = list(_tokens(text))
    query, rest = _any(tokens, text)
    if rest:
        raise Refusal(f"The search {text!r} has a parenthesis that nothing opens; take it out.")
    return query


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, text = 0, text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise Refusal(f"The search {text!r} has a quotation mark without its second; add it at the end.")
        yield found.lastgroup, found[found.lastgroup]
        at = found.end()


def _any(tokens: Sequence[tuple[str, str]], text: str) -> tuple[Query, Sequence[tuple[str, str]]]:
    parts = []
    while True:
        part, tokens = _all(tokens, text)
        parts.append(part)
        if not tokens or tokens[0] != ("word", "OR"):
            return parts[0] if len(parts) == 1 else Or(tuple(parts)), tokens
        tokens = tokens[1:]


def _all(tokens: Sequence[tuple[str, str]], text: str) -> tuple[Query, Sequence[tuple[str, str]]]:
    parts = []
    while True:
        part, tokens = _one(tokens, text)
        parts.append(part)
        if tokens and tokens[0] == ("word", "AND"):
            tokens = tokens[1:]
        elif not tokens or tokens[0][0] == "close" or tokens[0] == ("word", "OR"):
            return parts[0] if len(parts) == 1 else And(tuple(parts)), tokens


def _one(tokens: Sequence[tuple[str, str]], text: str) -> tuple[Query, Sequence[tuple[str, str]]]:
    if not tokens or tokens[0][0] == "close" or tokens[0] in (("word", "AND"), ("word", "OR")):
        what = f"before {tokens[0][1]}" if tokens else "at its end"
        raise Refusal(f"The search {text!r} lacks a word {what}; for example 'error AND timeout'.")
    (kind, word), rest = tokens[0], tokens[1:]
    if (kind, word) == ("word", "NOT"):
        part, rest = _one(rest, text)
        return Not(part), rest
    if kind == "open":
        part, rest = _any(rest, text)
        if not rest:
            raise Refusal(f"The search {text!r} has a parenthesis that nothing closes; add it at the end.")
        return part, rest[1:]
    return (phrase(word.strip('"')) if kind == "phrase" else word_of(word)), rest


def word_of(word: str) -> Query:
    """A term as terms.py makes them, or the phrase where it makes several of it."""
    stripped = _PIECE_ENDS.sub("", word.lower())[:LONGEST]
    if word.endswith("*"):
        if not stripped:
            raise Refusal(f"The search word {word!r} takes every line; put letters before the star.")
        return Term(stripped, prefix=True)
    name, colon, value = word.lower().partition(":")
    if colon and _WORD.fullmatch(name) and value:
        return Term(f"{name}:{value}"[:LONGEST])
    if not stripped or _PIECE_BREAK.search(stripped):
        return phrase(word)
    return Term(stripped)


def phrase(text: str) -> Query:
    """One word in quotes is that word."""
    return Term(text.lower()[:LONGEST]) if _WORD.fullmatch(text) else Phrase(text.lower())


def lookups(query: Query) -> tuple[Term, ...]:
    """The terms to look up; those after NOT say nothing about where lines are."""
    if isinstance(query, Term):
        return (query,)
    if isinstance(query, Phrase):
        return query.words
    if isinstance(query, Not):
        return ()
    return tuple(dict.fromkeys(term for part in query.parts for term in lookups(part)))


def possible(query: Query, present: set[Term]) -> bool:
    """False where a block that has just these terms can hold no line that is asked for."""
    if isinstance(query, Term):
        return query in present
    if isinstance(query, Phrase):
        return all(word in present for word in query.words)
    if isinstance(query, And):
        return all(possible(part, present) for part in query.parts)
    if isinstance(query, Or):
        return any(possible(part, present) for part in query.parts)
    return True


def uses_index(query: Query) -> bool:
    """False where every block may hold such a line, as for NOT x."""
    return not possible(query, set())
