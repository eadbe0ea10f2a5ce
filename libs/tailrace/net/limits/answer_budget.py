"""What one answer may hold. A row that would make it larger is refused, before anything of it is built."""

from __future__ import annotations

from typing import Final

MOST_ANSWER_BYTES: Final = 64 * 1024 * 1024
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


def text_bytes(text: str | None) -> int:
    """At most so many bytes are written for it, its length aside."""
    return 0 if text is None else len(text) if text.isascii() else 4 * len(text)
