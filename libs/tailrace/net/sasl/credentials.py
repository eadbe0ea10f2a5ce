"""The users of the metadata log, as a login looks for them: one that does not exist takes the same steps as another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from tailrace.access.sasl import Found
from tailrace.access.scram import MIN_ITERATIONS, ScramCredential, ScramMechanism, stand_in
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import UserScramCredentialRecord

_Users = Mapping[str, Mapping[int, UserScramCredentialRecord]]


class UserCredentials:
    """The credentials of an image; secret: of the cluster, so that every process stands in for a user alike."""

    def __init__(self, image: Callable[[], MetadataImage], secret: bytes) -> None:
        self._image = image
        self._secret = secret
        self._counted: _Users | None = None
        self._iterations: dict[int, int] = {}  # those that most users have, by mechanism
        self._checked_by = ScramMechanism.SCRAM_SHA_256  # the passwords of most users (PLAIN)

    def find(self, username: str, mechanism: ScramMechanism | None) -> Found:
        """The user's credential of that mechanism; None: of any."""
        users = self._image().scram
        if users is not self._counted:
            self._count(users)
        records = users.get(username, {})
        wanted = mechanism or _first(records) or self._checked_by
        record = records.get(wanted)
        # Made for a user that exists, too: it takes time.
        absent = stand_in(wanted, username, self._secret, self._iterations.get(wanted, MIN_ITERATIONS))
        if record is None:
            return Found(wanted, absent, known=False)
        found = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
        return Found(wanted, found, known=True)

    def _count(self, users: _Users) -> None:
        """A user with another hash or other iterations than most is one that exists; none that does not may look so."""
        self._counted = users
        firsts = Counter(first for records in users.values() if (first := _first(records)) is not None)
        self._checked_by = firsts.most_common(1)[0][0] if firsts else self._checked_by
        for mechanism in ScramMechanism:
            counts = Counter(records[mechanism].iterations for records in users.values() if mechanism in records)
            if counts:
                self._iterations[mechanism] = counts.most_common(1)[0][0]


def _first(records: Mapping[int, UserScramCredentialRecord]) -> ScramMechanism | None:
    return min(map(ScramMechanism, records), default=None)
