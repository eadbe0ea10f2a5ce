"""What one answer may hold. A row that would make it larger is refused, before anything of it is built. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from tailrace.errors import ApiError, ErrorCode, shortened

MOST_ANSWER_BYTES: Final = 64 * 1024 * 1024
MOST_TEXT_BYTES: Final = 1024 * 1024
_Row = TypeVar("_Row")
TOO_LARGE: Final = f"The answer would be larger than {MOST_ANSWER_BYTES >> 20} MiB: ask for less at a time."


class AnswerBudget:
    """The bytes that are left. A row that is refused takes none, so that smaller ones still have room."""

    __slots__ = ("left_bytes",)

    def __init__(self, most_bytes: int = MOST_ANSWER_BYTES) -> None:
        self.left_bytes = most_bytes

    def take(self, size_bytes: int) -> bool:
        """Whether there is room for so many more."""
        if size_bytes > self.left_bytes:
            return False
        self.left_bytes -= size_bytes
        return True


def fitting(rows: Iterable[_Row], size_bytes: Callable[[_Row], int]) -> Iterator[_Row]:
    """The rows of one answer that lists all there is; MESSAGE_TOO_LARGE where they are too many bytes."""
    budget = AnswerBudget()
    for row in rows:
        if not budget.take(size_bytes(row)):
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, TOO_LARGE)
        yield row


class RefusalTexts:
    """The sentences of one answer: where they take more than a MiB, its further rows have the error code alone.

    For APIs with a row for each partition: a row of four bytes may be refused with a sentence that names its topic.
    """

    __slots__ = ("_budget",)

    def __init__(self, most_bytes: int = MOST_TEXT_BYTES) -> None:
        self._budget = AnswerBudget(most_bytes)

    def of(self, message: str | None) -> str | None:
        """The sentence, if there is room for it; a very long one is cut."""
        message = None if message is None else shortened(message)
        return message if self._budget.take(text_bytes(message)) else None


def text_bytes(text: str | None) -> int:
    """At most so many bytes are written for it, its length aside."""
    return 0 if text is None else len(text) if text.isascii() else 4 * len(text)
