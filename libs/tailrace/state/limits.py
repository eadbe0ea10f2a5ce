"""How much of long work is done at once, before the event loop has its turn or the log its commit: one table.

A request may name 20,000 rows, and thousands of members may wait for one answer.
"""

from __future__ import annotations

from typing import Final

ROWS_AT_ONCE: Final = 500  # which take some microseconds each: rows of one decision, deadlines that are looked at
ANSWERS_AT_ONCE: Final = 20  # which take a tenth of a millisecond each: members that get an answer or are timed out
RECORDS_A_BATCH: Final = 1_000  # a batch is built in one go, which takes some milliseconds
