"""The rights of clients to topics, as Produce and Fetch ask for them: once for each topic and change of the ACLs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.access.authorizer import Denied
from tailrace.access.resources import AclOperation, ResourceType
from tailrace.errors import ErrorCode
from tailrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from tailrace.net.authorization.image_authorizer import FollowedMetadata
    from tailrace.net.session import ClientSession
    from tailrace_broker.partitions.topics import Topics


class TopicRights:
    """What restricted clients may do with the topics of a broker."""

    def __init__(self, topics: Topics, metadata: FollowedMetadata) -> None:
        self._topics = topics
        self.metadata = metadata

    def refusal(self, session: ClientSession, operation: AclOperation, key: bytes, *, by_id: bool) -> int:
        """TOPIC_AUTHORIZATION_FAILED, else NONE; also for an id that is unknown, which is refused for that.

        operation: READ or WRITE.
        """
        grants = session.grants
        if grants.rules is self.metadata.image.acls:
            granted = grants.write if operation is AclOperation.WRITE else grants.read
            if (by_id, key) in granted:
                return ErrorCode.NONE
        row = self._topics.by_id.get(key) if by_id else None
        name = row.image.name if row is not None else bytes(key).decode("utf-8", "replace")
        if (by_id and row is None) or self._may(session, operation, (by_id, bytes(key)), name):
            return ErrorCode.NONE
        api_key = ApiKey.PRODUCE if operation is AclOperation.WRITE else ApiKey.FETCH
        session.on_denied(api_key, Denied(operation, ResourceType.TOPIC, name))
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def _may(self, session: ClientSession, operation: AclOperation, key: tuple[bool, bytes], name: str) -> bool:
        """Remembered of topics that there are: any other name may be as long as the protocol allows."""
        if self.metadata.image.topic(name) is None:
            return session.authorized(operation, ResourceType.TOPIC, name)
        return session.may(operation, key, name)
