"""ElectLeaders (KIP-460): the preferred leader where another leads, or any leader where there is none."""

from collections.abc import Iterator, Sequence

from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import NO_LEADER, PartitionChangeRecord
from tailrace.net.limits.answer_budget import RefusalTexts
from tailrace.wire.messages import ElectLeadersRequest, ElectLeadersResponse
from tailrace_controller.decide.controller_result import ControllerResult, check_size
from tailrace_controller.decide.elections import Elections
from tailrace_controller.decide.partition_change import Election, Wish

PREFERRED, UNCLEAN = 0, 1  # election types on the wire
_ELECTIONS = {PREFERRED: Election.PREFERRED, UNCLEAN: Election.UNCLEAN}
_Topic = ElectLeadersResponse.ReplicaElectionResult
_Partition = _Topic.PartitionResult
_SENTENCES = {
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
}


def elect(image: MetadataImage, request: ElectLeadersRequest, config: Config) -> ControllerResult[ElectLeadersResponse]:
    """Elects where it can; each partition has its own error. INVALID_REQUEST for an unknown type of election.

    POLICY_VIOLATION where more than 10,000 leaders would change, all of it, as in Kafka.
    Asked for all partitions, those that need no election are left out of the answer.
    """
    kind = request.election_type or PREFERRED
    if kind not in _ELECTIONS:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {kind}")
    elections = Elections(image, config)
    records: list[PartitionChangeRecord] = []
    topics, texts = [], RefusalTexts()
    for name, indexes in _asked(image, request):
        rows = []
        for index in indexes:
            code, message, record = _elect_one(image, elections, name, index, kind)
            if record is not None:
                check_size(records, 1)
                records.append(record)
            if request.topic_partitions is not None or code != ErrorCode.ELECTION_NOT_NEEDED:
                rows.append(_Partition(partition_id=index, error_code=code, error_message=texts.of(message)))
        topics.append(_Topic(topic=name, partition_result=rows))
    return ControllerResult(ElectLeadersResponse(error_code=0, replica_election_results=topics), tuple(records))


def _asked(image: MetadataImage, request: ElectLeadersRequest) -> Iterator[tuple[str, Sequence[int]]]:
    if request.topic_partitions is None:
        for topic in image.topics.values():
            yield topic.name, range(len(topic.partitions))
        return
    for asked in request.topic_partitions:
        yield asked.topic, asked.partitions


def _elect_one(
    image: MetadataImage, elections: Elections, name: str, index: int, kind: int
) -> tuple[ErrorCode, str | None, PartitionChangeRecord | None]:
    topic, partition = image.topic(name), image.partition(name, index)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}", None
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}", None
    done = partition.leader == partition.replicas[0] if kind == PREFERRED else partition.leader != NO_LEADER
    if done:
        return _refusal(ErrorCode.ELECTION_NOT_NEEDED)
    record = elections.change(topic, index, partition, Wish(_ELECTIONS[kind]))
    if record is not None:
        return ErrorCode.NONE, None, record
    if kind == PREFERRED:
        return _refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    return _refusal(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)


def _refusal(code: ErrorCode) -> tuple[ErrorCode, str, None]:
    return code, _SENTENCES[code], None
