"""Names of files and directories on their way in or out, which a start finds again."""

from __future__ import annotations

from typing import Final

DELETED_SUFFIX: Final = ".deleted"  # of a segment's file: it goes after file.delete.delay.ms
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
TEMPORARY_SUFFIX: Final = ".tmp"
DELETE_SUFFIX: Final = "-delete"  # of a partition's directory: it goes after file.delete.delay.ms
FUTURE_SUFFIX: Final = "-future"
STRAY_SUFFIX: Final = "-stray"  # as Kafka calls it: nothing says whose it is, so it is kept and never read
