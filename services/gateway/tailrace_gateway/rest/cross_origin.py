"""Which pages of other origins may ask the REST API (CORS). Pure, and imported before FastAPI."""

from __future__ import annotations

from typing import Final, NamedTuple

ANY: Final = "*"


class CrossOrigin(NamedTuple):
    """Pages of other origins that may ask and read answers (CORS), and by which methods."""

    origins: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()

    def allows(self, origin: str) -> bool:
        """Whether a page of that origin may."""
        return ANY in self.origins or origin in self.origins


NO_OTHERS: Final = CrossOrigin()
