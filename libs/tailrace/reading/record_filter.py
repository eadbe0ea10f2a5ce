"""A filter of records: an expression of CEL, the Common Expression Language, about key, value, headers and place.

An evaluation holds the interpreter and cannot be interrupted. So a service bounds beforehand what one may cost: the
length of the expression, the size of what it looks at, and what it says (`filter_words.py`: no loops). `matches` is
RE2's, because a regular expression of the binding can take a second to compile. A search takes at most as many steps as
the pattern's program has instructions, for each byte of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import ModuleType
from typing import Final, NamedTuple

from tailrace.reading.decoders.plain import Encoding, shown
from tailrace.reading.filter_words import fault_in
from tailrace.reading.topic_regex import compiled
from tailrace.records.record import Record
from tailrace.records.timestamps import has_date

_STRING: Final = re.compile(
    r"""[rRbB]{0,2}("{3}(?:\\.|[^\\])*?"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""",
    re.DOTALL,
)
_MATCHES: Final = re.compile(r"\bmatches(?=\s*\()")
_RE2: Final = "re2find"  # as long as `matches`: errors name the right column
_FAILURES: Final = (ValueError, TypeError, KeyError, IndexError, RuntimeError, ArithmeticError)


class FilterCost(NamedTuple):
    """What a filter may cost: characters of its expression, bytes of a key, value or headers, steps, and loops.

    search_steps: of all searches (`matches`) for one record.
    """

    characters: int
    part_bytes: int
    search_steps: int
    has_loops: bool


OF_A_SERVICE: Final = FilterCost(1_024, 16 << 10, 1 << 20, has_loops=False)
OF_A_COMMAND: Final = FilterCost(16 << 10, 16 << 20, 1 << 40, has_loops=True)


class RecordFilter:
    """An expression, ready for many records. It sees keys and values as the encodings decode them.

    A record for which it fails, as for a field that is missing, is no match, and is counted.
    """

    def __init__(
        self, expression: str, cost: FilterCost, key: Encoding = Encoding.AUTO, value: Encoding = Encoding.AUTO
    ) -> None:
        """Raises ValueError with a sentence that points at the place."""
        if len(expression) > cost.characters:
            raise ValueError(f"filter: {cost.characters} characters at most")
        cel = _binding()
        fault = fault_in(expression, _VARIABLES)
        if fault is not None and not cost.has_loops:
            raise ValueError(f"filter: {fault}")
        try:
            self._program = cel.compile(_with_re2(expression))
        except ValueError as wrong:
            raise ValueError(f"filter: {_said(wrong)}") from None
        names = set(self._program.variables())
        if fault is None and (unknown := sorted(names - _VARIABLES.keys())):
            raise ValueError(f"filter: there is no {unknown[0]}: expected {', '.join(_VARIABLES)}")
        self._names = sorted(names & _VARIABLES.keys())
        self._context = cel.Context({})
        self._context.add_function(_RE2, self._search)
        self._wrong_search: Exception | None = None
        self._search_steps = cost.search_steps
        self._steps_left = 0
        self._forms = _Forms(key, value, cost.part_bytes)
        self.failures = 0
        self.first_failure: str | None = None

    def __call__(self, partition: int, record: Record) -> bool:
        try:
            for name in self._names:
                self._context.add_variable(name, _VARIABLES[name](partition, record, self._forms))
            self._wrong_search = None
            self._steps_left = self._search_steps
            found = self._program.execute(self._context)
            if self._wrong_search is not None:
                raise self._wrong_search
            if isinstance(found, bool):
                return found
            raise TypeError(f"it is no condition: the result is {type(found).__name__}")
        except _FAILURES as failed:
            self.failures += 1
            if self.first_failure is None:
                self.first_failure = f"{partition}:{record.offset}: {_said(failed)}"
            return False

    def _search(self, text: object, pattern: object) -> bool:
        """`matches`. It raises nothing: the binding writes a line to stderr for each error of a function."""
        try:
            if not isinstance(text, str) or not isinstance(pattern, str):
                raise TypeError("matches takes texts")
            searched = compiled(pattern)
            size_bytes = len(text.encode())
            self._steps_left -= searched.programsize * (size_bytes + 1)
            if self._steps_left < 0:
                raise ValueError(f"{pattern}: a search in {size_bytes} bytes may take too long")
            return searched.search(text) is not None
        except (TypeError, ValueError) as wrong:
            self._wrong_search = wrong
            return False


class _Forms(NamedTuple):
    key: Encoding
    value: Encoding
    part_bytes: int


def _decoded(content: bytes | None, encoding: Encoding, most: int) -> object:
    if content is None:
        return None
    if len(content) > most:
        raise ValueError(f"{len(content)} bytes are more than the {most} that a filter looks at")
    found = shown(content, encoding)
    return content if found.type == "BINARY" else found.data


def _headers(record: Record, most: int) -> dict[str, object]:
    if sum(len(name) + len(value or b"") + 1 for name, value in record.headers) > most:
        raise ValueError(f"headers of more than the {most} bytes that a filter looks at")
    return {name: _decoded(value, Encoding.TEXT, most) for name, value in record.headers}


def _timestamp(record: Record) -> datetime | None:
    return datetime.fromtimestamp(record.timestamp / 1000, UTC) if has_date(record.timestamp) else None


_VARIABLES: Final[Mapping[str, Callable[[int, Record, _Forms], object]]] = {
    "key": lambda partition, record, forms: _decoded(record.key, forms.key, forms.part_bytes),
    "value": lambda partition, record, forms: _decoded(record.value, forms.value, forms.part_bytes),
    "headers": lambda partition, record, forms: _headers(record, forms.part_bytes),
    "offset": lambda partition, record, forms: record.offset,
    "partition": lambda partition, record, forms: partition,
    "timestamp": lambda partition, record, forms: _timestamp(record),
}


def _binding() -> ModuleType:
    import cel  # here, as few that import this module need it

    return cel


def _with_re2(expression: str) -> str:
    bare = _STRING.sub(lambda found: " " * len(found[0]), expression)
    for found in _MATCHES.finditer(bare):
        expression = expression[: found.start()] + _RE2 + expression[found.end() :]
    return expression


def _said(failed: Exception) -> str:
    """The binding's sentence without the expression, which it repeats, and its advice."""
    if isinstance(failed, KeyError):
        return f"there is no field {failed}"
    text = str(failed).replace(_RE2, "matches")
    _, _, error = text.rpartition("ERROR: <input>:")
    if error != text and error:
        return "at " + error.partition(":")[2].partition("\n")[0]
    return text.partition(". ")[0][:200]
