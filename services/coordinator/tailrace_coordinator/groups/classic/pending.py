"""The member ids that one shard has given and nobody has used yet, of all its groups (KIP-394).

An id costs who asks for it a request of a hundred bytes, and is kept for its session timeout, half an hour at most. The
group that is made for it is kept until the next look for disused ones. So the oldest are forgotten where all of them
take more than a bound. A client comes back with its id at once; one that comes too late is given another.

Apache Kafka has no bound.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

ID_BYTES: Final = 600  # with its timer, beside its text
GROUP_BYTES: Final = 2_400  # of the group that is made for it


class PendingIds:
    """In the order in which they were given."""

    __slots__ = ("_ids", "_most_bytes", "size_bytes")

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._ids: OrderedDict[tuple[str, str], int] = OrderedDict()
        self.size_bytes = 0

    def add(self, group_id: str, member_id: str, *, is_new_group: bool) -> None:
        """Given just now."""
        size = ID_BYTES + len(group_id) + len(member_id) + (GROUP_BYTES if is_new_group else 0)
        self._ids[group_id, member_id] = size
        self.size_bytes += size

    def discard(self, group_id: str, member_id: str) -> None:
        """Used."""
        self.size_bytes -= self._ids.pop((group_id, member_id), 0)

    def too_many(self) -> Iterator[tuple[str, str]]:
        """Takes out those that are to be forgotten: group and member id."""
        while self.size_bytes > self._most_bytes and len(self._ids) > 1:
            which, size = self._ids.popitem(last=False)
            self.size_bytes -= size
            yield which
