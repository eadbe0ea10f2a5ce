"""The grammar of searches (lark), and where a text leaves it."""

from __future__ import annotations

from lark import Lark, Token, Tree, UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from tailrace_spark.refusal import Refusal

GRAMMAR = r"""
?any: all ("OR" all)*
?all: one ("AND"? one)*
?one: "NOT" one -> not
    | "(" any ")"
    | PHRASE    -> phrase
    | WORD      -> word
PHRASE: /"[^"]*"/
WORD: /(?!(?:AND|OR|NOT)(?![^\s()"]))[^\s()"]+/
%ignore /\s+/
"""
PARSER = Lark(GRAMMAR, start="any", parser="lalr", maybe_placeholders=False)


def tree_of(text: str) -> Tree[Token]:
    """Raises Refusal, which shows the place."""
    try:
        return PARSER.parse(text)
    except UnexpectedInput as error:
        at, why = place(error, text)
        raise Refusal(f"{why}, for example 'error AND timeout':\n  {text}\n  {' ' * at}^") from None


def place(error: UnexpectedInput, text: str) -> tuple[int, str]:
    """Where the text leaves the grammar, and what to do."""
    at_end = isinstance(error, UnexpectedEOF) or (isinstance(error, UnexpectedToken) and error.token.type == "$END")
    at = len(text.rstrip()) if at_end or error.pos_in_stream is None else error.pos_in_stream
    if isinstance(error, UnexpectedCharacters) and text[at : at + 1] == '"':
        return at, "The search has a quotation mark without its second; add it at the end"
    if at_end and isinstance(error, UnexpectedToken) and "RPAR" in error.accepts:
        return at, "The search has a parenthesis that nothing closes; add it at the end"
    if not at_end and text[at] == ")" and wants_no_word(error):
        return at, "The search has a parenthesis that nothing opens; take it out"
    return at, "The search lacks a word"


def wants_no_word(error: UnexpectedInput) -> bool:
    """Whether what stands before the place is a whole search."""
    return isinstance(error, UnexpectedToken) and "WORD" not in error.accepts
