"""The search language: error AND (timeout OR "connection reset") NOT service:cart trace*.

Words side by side are both wanted. Quotes want the words in that order, with what is between them. A `*` at the end
takes every word that begins so. `name:value` asks a field. Case does not matter, except in AND, OR and NOT.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lark import Token, Tree

from tailrace_spark.logs.grammar import tree_of
from tailrace_spark.logs.terms import LONGEST
from tailrace_spark.refusal import Refusal

_WORD = re.compile(r"\w+")  # what terms.WORD_BREAK leaves
_PIECE_BREAK = re.compile(r"[\s\"'`()\[\]{}<>,;=|]")
_PIECE_ENDS = re.compile(r"^[^\w/]+|[^\w/]+$")


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
    return meaning(tree_of(text))


def meaning(tree: Tree[Token]) -> Query:
    """Of a part of the grammar."""
    kind = str(tree.data)
    if kind in ("word", "phrase"):
        said = str(tree.children[0])
        return word_of(said) if kind == "word" else phrase(said.strip('"'))
    parts = tuple(meaning(part) for part in tree.children if isinstance(part, Tree))
    if kind == "not":
        return Not(parts[0])
    return Or(parts) if kind == "any" else And(parts)


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
