"""The users of the metadata log, as a login looks for them: one that does not exist takes the same steps as another."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tailrace.access.sasl import Found
from tailrace.access.scram import ScramCredential, ScramMechanism
from tailrace.access.stand_in import Profile, StandIns, shape_of
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import UserScramCredentialRecord

_Users = Mapping[str, Mapping[int, UserScramCredentialRecord]]


class UserCredentials:
    """The credentials of an image; secret: of the cluster, so that every process stands in for a user alike."""

    def __init__(self, image: Callable[[], MetadataImage], secret: Callable[[], bytes]) -> None:
        self._image = image
        self._secret_of = secret
        self._secret = b""
        self._counted: _Users | None = None
        self._stand_ins = StandIns(self._secret, ())

    def find(self, username: str, mechanism: ScramMechanism | None) -> Found:
        """The user's credential of that mechanism; None: of any."""
        users, secret = self._image().scram, self._secret_of()
        if users is not self._counted or secret != self._secret:
            self._counted, self._secret = users, secret
            self._stand_ins = StandIns(secret, (_profile(one) for one in users.values() if one))
        absent_by, absent = self._stand_ins.find(username, mechanism)  # for a user that exists, too: it takes time
        records = users.get(username, {})
        wanted = mechanism or min(map(ScramMechanism, records), default=absent_by)
        record = records.get(wanted)
        if record is None:
            return Found(absent_by, absent, known=False)
        return Found(wanted, _credential(record), known=True)

    def all_of(self, username: str) -> list[ScramCredential]:
        """The user's credentials of all mechanisms; none of one that does not exist."""
        return [_credential(record) for _, record in sorted(self._image().scram.get(username, {}).items())]


def _credential(record: UserScramCredentialRecord) -> ScramCredential:
    return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)


def _profile(records: Mapping[int, UserScramCredentialRecord]) -> Profile:
    return tuple([(one, shape_of(record.iterations, record.salt)) for one, record in sorted(records.items())])
