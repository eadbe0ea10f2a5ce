"""kafka-python 3 behind the common face."""

import importlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import kafka.errors
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from support.clients.base import EARLIEST, HEARTBEAT_MS, LATEST, SESSION_TIMEOUT_MS, Client, Member, Record, Refused
from support.waiting import HUNG_S

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


@contextmanager
def refusals() -> Iterator[None]:
    """Turns the library's errors into codes."""
    try:
        yield
    except KafkaError as error:
        raise Refused(getattr(error, "errno", -1), repr(error)) from error


# kafka-python 3.0.12 drops a join that a poll's end cut in two: JoinGroup and SyncGroup are answered, but the
# assignment is not taken, heartbeats stay off and the next poll joins anew, until the group forgets the member (its
# log says "timeout in ensure_active_group"). So a join is given time of its own, whatever is left of the poll.
POLL_MS, JOIN_MS = 500, 20_000
CONSUMERS: Any = importlib.import_module("kafka.consumer.group")


class WholeJoins(ConsumerCoordinator):
    """Lets a join outlast the poll it began in."""

    def ensure_active_group(self, timeout_ms: int | None = None) -> Any:
        return super().ensure_active_group(timeout_ms=JOIN_MS)  # type: ignore[no-untyped-call]


@contextmanager
def whole_joins() -> Iterator[None]:
    """Consumers that are made here have them: they make their own coordinator."""
    CONSUMERS.ConsumerCoordinator = WholeJoins
    try:
        yield
    finally:
        CONSUMERS.ConsumerCoordinator = ConsumerCoordinator


class KafkaPythonMember(Member):
    """A KafkaConsumer on its own thread."""

    def __init__(self, bootstrap: str, group: str, topic: str, assignor: str, instance_id: str | None) -> None:
        with whole_joins():
            self.consumer = KafkaConsumer(
                bootstrap_servers=bootstrap,
                group_id=group,
                group_instance_id=instance_id,
                auto_offset_reset="earliest",
                session_timeout_ms=SESSION_TIMEOUT_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
                partition_assignment_strategy=[ASSIGNORS[assignor]],
            )
        self.consumer.partitions_for_topic(topic)  # or it joins without knowing the topic, and joins again at once
        self.consumer.subscribe([topic])
        super().__init__()

    def run(self) -> None:
        """Polls until told to stop."""
        while not self.stopping.is_set():
            batches = self.consumer.poll(timeout_ms=POLL_MS)
            values = [record.value for rows in batches.values() for record in rows]
            self.saw([p.partition for p in self.consumer.assignment()], values)
        self.consumer.close()


class KafkaPythonClient(Client):
    """kafka-python 3."""

    name = "kafka-python 3"
    assignors = frozenset(ASSIGNORS)

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def close(self) -> None:
        self.admin.close()

    def create_topic(
        self, name: str, partitions: int = 1, replication_factor: int = 1, configs: dict[str, str] | None = None
    ) -> None:
        topic = {"num_partitions": partitions, "replication_factor": replication_factor, "configs": configs or {}}
        with refusals():
            self.admin.create_topics({name: topic}, wait_for_metadata=True)

    def delete_topic(self, name: str) -> None:
        with refusals():
            self.admin.delete_topics([name])

    def list_topics(self) -> set[str]:
        return set(self.admin.list_topics())

    def partition_count(self, topic: str) -> int:
        return len(self.admin.describe_topics([topic])[0]["partitions"])

    def add_partitions(self, topic: str, total: int) -> None:
        with refusals():
            self.admin.create_partitions({topic: total})

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        acks: int | str = "all",
        compression: str | None = None,
        idempotent: bool = False,
        partitioned: bool = True,
    ) -> list[tuple[int, int]]:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks=acks,
            compression_type=compression,
            enable_idempotence=idempotent,
            linger_ms=5,
        )
        try:
            with refusals():
                sent = [
                    producer.send(
                        topic,
                        value=record.value,
                        key=record.key,
                        headers=list(record.headers),
                        partition=record.partition if partitioned else None,
                        timestamp_ms=record.timestamp_ms,
                    )
                    for record in records
                ]
                producer.flush(HUNG_S)
                metadata = [future.get(HUNG_S) for future in sent]
        finally:
            producer.close()
        return [(row.partition, row.offset) for row in metadata]

    def read(self, topic: str, start: int | str, count: int, partition: int = 0) -> list[Record]:
        where = TopicPartition(topic, partition)
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, auto_offset_reset=str(EARLIEST))
        found: list[Record] = []
        try:
            consumer.assign([where])
            if start == EARLIEST:
                consumer.seek_to_beginning(where)
            elif start == LATEST:
                consumer.seek_to_end(where)
            else:
                consumer.seek(where, int(start))
            for _ in range(40):
                for rows in consumer.poll(timeout_ms=500).values():
                    found += [self._record(row) for row in rows]
                if len(found) >= count:
                    break
        finally:
            consumer.close()
        return found

    @staticmethod
    def _record(row: Any) -> Record:
        headers = tuple((name, bytes(value)) for name, value in row.headers)
        return Record(row.value, row.key, headers, row.partition, row.timestamp, row.offset)

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        where = TopicPartition(topic, 0)
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap)
        try:
            found = consumer.offsets_for_times({where: timestamp_ms})[where]
        finally:
            consumer.close()
        return None if found is None else int(found.offset)

    def commit(self, group: str, topic: str, offset: int, metadata: str) -> None:
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, group_id=group, enable_auto_commit=False)
        try:
            consumer.assign([TopicPartition(topic, 0)])
            with refusals():
                consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(offset, metadata, -1)})
        finally:
            consumer.close()

    def committed(self, group: str, topic: str) -> tuple[int, str] | None:
        offsets = self.admin.list_group_offsets({group: [TopicPartition(topic, 0)]})[group]
        found = offsets.get(TopicPartition(topic, 0))
        return None if found is None or found.offset < 0 else (found.offset, found.metadata)

    def describe_config(self, kind: str, name: str) -> dict[str, tuple[str | None, int]]:
        resource = ConfigResource(ConfigResourceType[kind.upper()], name)
        with refusals():
            rows = self.admin.describe_configs([resource], config_filter="all")[kind][name]
        return {key: (row["value"], self._source(row["config_source"])) for key, row in rows.items()}

    @staticmethod
    def _source(value: Any) -> int:
        from kafka.admin import ConfigSourceType

        return int(ConfigSourceType[value].value) if isinstance(value, str) else int(value)

    def alter_topic_config(self, topic: str, configs: dict[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs)
        with refusals():
            outcome = self.admin.alter_configs([resource])["topic"][topic]
        if outcome != "OK":  # the library answers its error as text
            code = re.search(r"\[Error (\d+)\]", outcome)
            raise Refused(int(code[1]) if code else -1, outcome)

    def list_groups(self) -> set[str]:
        return {row["group_id"] for row in self.admin.list_groups()}

    def describe_group(self, group: str) -> tuple[str, int]:
        with refusals():
            row = self.admin.describe_groups([group])[group]
        return str(row["group_state"]), len(row["members"])

    def delete_group(self, group: str) -> None:
        """Deletes a group; raises Refused."""
        with refusals():
            outcome = self.admin.delete_groups([group])[group]
        if outcome != "OK":  # the library answers the name of its error
            raise Refused(getattr(kafka.errors, outcome).errno, outcome)

    def delete_group_offsets(self, group: str, topic: str) -> None:
        """Forgets a committed offset (OffsetDelete)."""
        with refusals():
            self.admin.delete_group_offsets(group, [TopicPartition(topic, 0)])

    def delete_records(self, topic: str, before: int) -> None:
        with refusals():
            self.admin.delete_records({TopicPartition(topic, 0): before})

    def log_dirs(self, topic: str) -> dict[int, list[tuple[str, int]]]:
        """Per broker: (directory, size of the topic's partitions there)."""
        rows = self.admin.describe_log_dirs([topic])
        return {row["broker"]: [(d["log_dir"], sum_sizes(d)) for d in row["log_dirs"]] for row in rows}

    def join(self, group: str, topic: str, assignor: str = "range", instance_id: str | None = None) -> Member:
        return KafkaPythonMember(self.bootstrap, group, topic, assignor, instance_id)


def sum_sizes(log_dir: Any) -> int:
    """Bytes of all partitions in one described log dir."""
    return sum(p["partition_size"] for topic in log_dir["topics"] for p in topic["partitions"])
