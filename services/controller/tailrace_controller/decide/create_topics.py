"""CreateTopics: which records make the asked topics, and which errors Kafka gives for those that cannot be made."""

from collections import Counter
from collections.abc import Callable
from functools import cached_property
from uuid import UUID

from tailrace.config import Config, describe
from tailrace.config.topic import validate
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.resources import ConfigResource
from tailrace.metadata import names
from tailrace.metadata.directories import of_new
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import ConfigRecord, MetadataRecord, PartitionRecord, TopicRecord
from tailrace.quota.mutations import UNLIMITED, MutationQuota
from tailrace.wire.messages import CreateTopicsRequest, CreateTopicsResponse
from tailrace_controller.decide import internal_topics, placement, record_text, resources, shards
from tailrace_controller.decide.controller_result import MAX_RECORDS, ControllerResult, check_size
from tailrace_controller.decide.placement import Placed

NOT_GIVEN = -1
_Asked = CreateTopicsRequest.CreatableTopic
_Result = CreateTopicsResponse.CreatableTopicResult


def create(
    image: MetadataImage,
    request: CreateTopicsRequest,
    config: Config,
    new_topic_id: Callable[[], UUID],
    quota: MutationQuota = UNLIMITED,
) -> ControllerResult[CreateTopicsResponse]:
    """Creates what can be created, in the request's order; each topic has its own error.

    THROTTLING_QUOTA_EXCEEDED for topics above the client's quota (KIP-599); as in Kafka, validating alone counts, too.
    """
    asked = Counter(topic.name for topic in request.topics)
    config = resources.cluster_config(image, config)
    _check_partitions(request, config)
    creation = _Creation(image, config, new_topic_id, quota)
    results = []
    for topic in request.topics:
        count, asked[topic.name] = asked[topic.name], 0
        if not count:
            continue  # named twice, and answered
        try:
            if count > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            result = creation.add(topic)
        except ApiError as refused:
            result = _Result(
                name=topic.name, error_code=refused.code, error_message=refused.message, configs=[], num_partitions=-1,
                replication_factor=-1,
            )  # fmt: skip
        check_size(creation.records)
        results.append(result)
    records = () if request.validate_only else tuple(creation.records)
    return ControllerResult(
        CreateTopicsResponse(topics=results), shards.with_assignment(image, records) if records else ()
    )


def _check_partitions(request: CreateTopicsRequest, config: Config) -> None:
    """Before any is made: those of all topics together."""
    default = config.num_partitions
    counts = ((len(topic.assignments), topic.num_partitions) for topic in request.topics)
    if sum(manual or (default if count == NOT_GIVEN else max(0, count)) for manual, count in counts) > MAX_RECORDS:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


class _Creation:
    """The topics of one request: each reckons with those before it, and looks at no other topic for that."""

    def __init__(
        self, image: MetadataImage, config: Config, new_topic_id: Callable[[], UUID], quota: MutationQuota
    ) -> None:
        self.records: list[MetadataRecord] = []
        self._quota = quota
        self._image = image
        self._config = config
        self._new_topic_id = new_topic_id
        self._load = placement.Load(image)

    def add(self, topic: _Asked) -> _Result:
        """Returns the answer for a topic whose records are among the others' now."""
        image, config = self._image, self._config
        self._check_name(topic.name)
        asked = {item.name: item.value for item in topic.configs or ()}
        if nulls := [key for key, value in asked.items() if value is None]:
            why = f"Null value not supported for topic configs: {','.join(nulls)}"
            raise ApiError(ErrorCode.INVALID_CONFIG, why)
        overrides = {key: value for key, value in asked.items() if value is not None}
        count, replication_factor = topic.num_partitions, topic.replication_factor
        if (own := internal_topics.own_settings(topic.name, config)) is not None:
            count = own.num_partitions if count == NOT_GIVEN else count
            if replication_factor == NOT_GIVEN:
                replication_factor = internal_topics.wanted_replication_factor(image, topic.name, config)
            overrides = {**own.configs, **overrides}
        if topic.assignments:
            partitions = _manual(image, topic)
        else:
            partitions = _automatic(image, count, replication_factor, config, self._load)
        validate(overrides, config)
        configs = [ConfigRecord(ConfigResource.TOPIC, topic.name, key, value) for key, value in overrides.items()]
        record_text.check(configs, ErrorCode.INVALID_CONFIG)
        if not self._quota.take(len(partitions)):
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        topic_id = self._new_topic_id()
        self._record(topic.name, topic_id, partitions, configs)
        return _Result(
            name=topic.name,
            topic_id=topic_id,
            error_code=0,
            error_message=None,
            num_partitions=len(partitions),
            replication_factor=len(partitions[0].replicas),
            configs=self._describe(overrides),
        )

    def _record(self, name: str, topic_id: UUID, partitions: list[Placed], configs: list[ConfigRecord]) -> None:
        self._load.add(name, partitions)
        if names.can_collide(name):
            self._colliding.setdefault(names.in_metrics(name), name)
        self.records.append(TopicRecord(name, topic_id))
        self.records += (
            PartitionRecord(index, topic_id, replicas, isr, leader=isr[0], directories=of_new(self._image, replicas))
            for index, (replicas, isr) in enumerate(partitions)
        )
        self.records += configs

    def _check_name(self, name: str) -> None:
        if name == names.CLUSTER_METADATA:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        if (why := names.refusal(name)) is not None:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)
        if name in self._image.topics:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if names.can_collide(name) and (other := self._colliding.get(names.in_metrics(name))) is not None:
            why = f"Topic '{name}' collides with existing topic: {other}"
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)

    @cached_property
    def _colliding(self) -> dict[str, str]:
        """Topics by what their metrics are called."""
        return {names.in_metrics(name): name for name in self._image.topics if names.can_collide(name)}

    def _describe(self, overrides: dict[str, str]) -> list[_Result.CreatableTopicConfigs]:
        own = {entry.name: entry for entry in describe.overridden(overrides, self._config)}
        return [_config_row(own[row.name]) if row.name in own else row for row in self._defaults]

    @cached_property
    def _defaults(self) -> list[_Result.CreatableTopicConfigs]:
        """The rows of a topic without configs of its own, which all answers share."""
        return [_config_row(entry) for entry in describe.topic({}, self._config)]


def _config_row(entry: describe.ConfigEntry) -> _Result.CreatableTopicConfigs:
    return _Result.CreatableTopicConfigs(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
    )


def _automatic(
    image: MetadataImage, count: int, replication_factor: int, config: Config, load: placement.Load
) -> list[Placed]:
    if replication_factor != NOT_GIVEN and replication_factor <= 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if count != NOT_GIVEN and count <= 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    if replication_factor == NOT_GIVEN:
        replication_factor = config.default_replication_factor
    count = config.num_partitions if count == NOT_GIVEN else count
    brokers = placement.candidates(image, replication_factor)
    return placement.place(brokers, count, replication_factor, load.start(brokers.live))


def _manual(image: MetadataImage, topic: _Asked) -> list[Placed]:
    for value, what in ((topic.replication_factor, "replication factor"), (topic.num_partitions, "numPartitions")):
        if value != NOT_GIVEN:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    found: dict[int, Placed] = {}
    expected = None
    for assignment in topic.assignments:
        index, replicas = assignment.partition_index, tuple(assignment.broker_ids)
        if index in found:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        placement.check_manual(image, replicas, expected)
        expected = len(replicas)
        found[index] = placement.manual(image, replicas, index)
    if sorted(found) != list(range(len(found))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return [found[index] for index in range(len(found))]
