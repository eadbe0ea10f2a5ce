"""The lease row of the metadata database, which names the active controller. Pure."""

from dataclasses import dataclass

NOBODY = -1


@dataclass(frozen=True, slots=True)
class Lease:
    """The row. Its holder changes it all the time: renewals count up, appends move next_offset.

    token names the holder's data directory: two controllers that were given the same id differ in it. seen_* is the
    highest offset and controller epoch that somebody has seen although this database ends below it (a restored
    backup); accepted_offset is how much of that an operator has given up.
    """

    holder: int
    token: str
    epoch: int
    renewals: int
    next_offset: int
    address: str = ""
    seen_offset: int = -1
    seen_epoch: int = -1
    accepted_offset: int = -1


@dataclass(frozen=True, slots=True)
class Candidate:
    """A controller as the lease row names it. An exclusive one needs no lease time: nobody else can open its data."""

    node_id: int
    token: str = ""
    address: str = ""
    exclusive: bool = False

    def holds(self, lease: Lease) -> bool:
        """Whether the row names this controller on this data directory, in whatever life."""
        return (lease.holder, lease.token) == (self.node_id, self.token)
