"""What the store needs of a kind of database. Its driver runs in autocommit: BEGIN and COMMIT are ours to write."""

from typing import Protocol

import sqlalchemy as sa


class Engine(Protocol):
    """One kind of database; begin may wait for somebody's lock."""

    def connect(self) -> sa.Connection: ...

    def begin(self, connection: sa.Connection) -> None: ...

    def begin_read(self, connection: sa.Connection) -> None: ...

    def prepare(self, connection: sa.Connection) -> None:
        """Adds what only this kind has to a new schema, inside its transaction; first of all its lock."""

    def disconnected(self) -> None:
        """The connection was given up."""

    def interrupt(self) -> bool:
        """Makes a wait give up; called from another thread. True if that is to connect: that fails when it ends."""

    def close(self) -> None: ...
