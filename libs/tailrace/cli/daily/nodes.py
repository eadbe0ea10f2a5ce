"""Kafka requests of the operator's commands, asked one at a time, with every error's sentence.

kafka-python has no call for some of them (fenced brokers, UnregisterBroker) and drops the sentences of others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import typer

from tailrace.cli.daily.connection import address
from tailrace.errors import ErrorCode
from tailrace.kafka.resources import ConfigResource
from tailrace.log.directory.disk_pressure import Level, judge, marks
from tailrace.metadata.moves import NoRoom, Partition, Replicas, by_topic, portions
from tailrace.net.address import Address
from tailrace.net.client import Client
from tailrace.runtime.clock import SystemClock
from tailrace.wire import messages as m
from tailrace.wire.codec import Malformed

_TIMEOUT_MS = 30_000
_CLIENT_ID = "tailrace-cli"
_MARKS = ("log.dir.pressure.slow.bytes", "log.dir.pressure.refuse.bytes")


class Broker(NamedTuple):
    """A registered broker; a fenced one is registered and away."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


class Size(NamedTuple):
    """A replica's bytes, and by how many records it is behind its leader."""

    size_bytes: int
    offset_lag: int


class LogDir(NamedTuple):
    """A broker's log directory; sizes and level are None where it is offline."""

    broker_id: int
    path: str
    error_code: int
    size_bytes: int | None
    usable_bytes: int | None
    total_bytes: int | None
    partitions: int
    moving_here: int
    level: Level | None


class RefusedError(Exception):
    """The cluster said no; the text is a sentence."""


class Nodes:
    """The cluster behind a bootstrap address. Raises OSError, TimeoutError, Malformed or RefusedError."""

    def __init__(self, bootstrap: str) -> None:
        self._runner = asyncio.Runner()
        self._bootstrap = [Address.parse(text.strip()) for text in bootstrap.split(",")]
        self._clients: dict[Address, Client] = {}

    def close(self) -> None:
        for client in self._clients.values():
            self._runner.run(client.close())
        self._runner.close()

    def ask(self, message: m.ApiMessage, version: int | None = None, at: Address | None = None) -> Any:
        """One request to one node: the first of the bootstrap list that can be reached, unless told which."""
        tried: OSError | None = None
        for target in [at] if at else self._bootstrap:
            if target not in self._clients:
                self._clients[target] = Client(target, _CLIENT_ID)
            try:
                return self._runner.run(self._clients[target].ask(message, timeout_ms=_TIMEOUT_MS, version=version))
            except ConnectionError as error:
                tried = error
        assert tried is not None
        raise tried

    def pause(self, time_ms: float) -> None:
        """Lets the cluster work for a while before the next question."""
        self._runner.run(SystemClock().sleep(time_ms))

    def brokers(self) -> list[Broker]:
        """All registered brokers by id, fenced ones too (KIP-1073)."""
        answer = self.ask(m.DescribeClusterRequest(include_fenced_brokers=True, endpoint_type=1), 2)
        check(answer.error_code, answer.error_message)
        rows = [Broker(row.broker_id, row.host, row.port, row.rack, row.is_fenced) for row in answer.brokers]
        return sorted(rows)

    def partitions(self, topics: Iterable[str] = ()) -> dict[Partition, Any]:
        """The rows of DescribeTopicPartitions, of all topics if none is named. An unknown topic is refused."""
        found: dict[Partition, Any] = {}
        row, cursor = m.DescribeTopicPartitionsRequest.TopicRequest, None
        asked = [row(name=name) for name in topics]
        while True:
            request = m.DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=2000, cursor=cursor)
            answer = self.ask(request, 0)
            for topic in answer.topics:
                check(topic.error_code, f"{topic.name}: no such topic" if topic.error_code else None)
                found.update({(topic.name, part.partition_index): part for part in topic.partitions})
            if answer.next_cursor is None:
                return found
            at = answer.next_cursor
            cursor = m.DescribeTopicPartitionsRequest.Cursor(
                topic_name=at.topic_name, partition_index=at.partition_index
            )

    def reassign(self, plan: Mapping[Partition, Replicas | None]) -> dict[Partition, str | None]:
        """Starts (or with None cancels) reassignments; returns each partition's refusal."""
        refusals: dict[Partition, str | None] = {}
        for portion in portions(plan):
            refusals |= self._reassign(portion)
        return refusals

    def _reassign(
        self, portion: Iterable[tuple[str, list[tuple[int, Replicas | None]]]]
    ) -> dict[Partition, str | None]:
        topic = m.AlterPartitionReassignmentsRequest.ReassignableTopic
        rows = [
            topic(
                name=name,
                partitions=[
                    topic.ReassignablePartition(
                        partition_index=index, replicas=None if replicas is None else list(replicas)
                    )
                    for index, replicas in parts
                ],
            )
            for name, parts in portion
        ]
        answer = self.ask(m.AlterPartitionReassignmentsRequest(topics=rows, timeout_ms=_TIMEOUT_MS))
        check(answer.error_code, answer.error_message)
        return {
            (done.name, part.partition_index): sentence(part.error_code, part.error_message)
            for done in answer.responses
            for part in done.partitions
        }

    def reassignments(self) -> dict[Partition, Any]:
        """What is being reassigned now: replicas, adding_replicas, removing_replicas."""
        answer = self.ask(m.ListPartitionReassignmentsRequest(topics=None, timeout_ms=_TIMEOUT_MS))
        check(answer.error_code, answer.error_message)
        return {(topic.name, part.partition_index): part for topic in answer.topics for part in topic.partitions}

    def elect(self, partitions: Iterable[Partition] | None, *, unclean: bool) -> dict[Partition, str | None]:
        """Elects preferred (or, unclean, any live) leaders; None means all partitions. Needless ones have no row."""
        topic = m.ElectLeadersRequest.TopicPartitions
        rows = None
        if partitions is not None:
            rows = [
                topic(topic=name, partitions=[index for index, _ in parts])
                for name, parts in by_topic(dict.fromkeys(partitions))
            ]
        request = m.ElectLeadersRequest(election_type=int(unclean), topic_partitions=rows, timeout_ms=_TIMEOUT_MS)
        answer = self.ask(request, 2)
        check(answer.error_code)
        return {
            (done.topic, part.partition_id): sentence(part.error_code, part.error_message)
            for done in answer.replica_election_results
            for part in done.partition_result
            if part.error_code != ErrorCode.ELECTION_NOT_NEEDED
        }

    def unregister(self, broker_id: int) -> None:
        """Forgets a broker that is away for good (UnregisterBroker)."""
        answer = self.ask(m.UnregisterBrokerRequest(broker_id=broker_id))
        check(answer.error_code, answer.error_message)

    def log_dirs(self) -> list[LogDir]:
        """Every live broker's log directories."""
        found = []
        for broker in self.brokers():
            if broker.fenced:
                continue
            answer = self.ask(m.DescribeLogDirsRequest(topics=None), 4, Address(broker.host, broker.port))
            at = self._pressure_marks(broker)
            for row in answer.results:
                parts = [part for topic in row.topics for part in topic.partitions]
                found.append(
                    LogDir(
                        broker.broker_id,
                        row.log_dir,
                        row.error_code,
                        None if row.error_code else sum(part.partition_size for part in parts),
                        _known(row.usable_bytes),
                        _known(row.total_bytes),
                        sum(not part.is_future_key for part in parts),
                        sum(part.is_future_key for part in parts),
                        _level(row, at),
                    )
                )
        return found

    def _pressure_marks(self, broker: Broker) -> tuple[int, int]:
        """Its log.dir.pressure.slow.bytes and .refuse.bytes; 0, never, where it does not say."""
        asked = m.DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=ConfigResource.BROKER, resource_name=str(broker.broker_id), configuration_keys=list(_MARKS)
        )
        answer = self.ask(m.DescribeConfigsRequest(resources=[asked]), 4, Address(broker.host, broker.port))
        said = {row.name: int(row.value) for row in answer.results[0].configs if row.value}
        return said.get(_MARKS[0], 0), said.get(_MARKS[1], 0)

    def move_to_log_dir(
        self, broker: Broker, path: str, partitions: Iterable[Partition]
    ) -> dict[Partition, str | None]:
        """Begins to move a broker's replicas to one of its log directories; returns each partition's refusal."""
        row = m.AlterReplicaLogDirsRequest.AlterReplicaLogDir
        topics = [
            row.AlterReplicaLogDirTopic(name=name, partitions=[index for index, _ in parts])
            for name, parts in by_topic(dict.fromkeys(partitions))
        ]
        request = m.AlterReplicaLogDirsRequest(dirs=[row(path=path, topics=topics)])
        answer = self.ask(request, 2, Address(broker.host, broker.port))
        return {
            (done.topic_name, part.partition_index): sentence(part.error_code, None)
            for done in answer.results
            for part in done.partitions
        }

    def sizes(self, partitions: Iterable[Partition]) -> dict[tuple[int, Partition], Size]:
        """What each live broker's log directories hold of these partitions (DescribeLogDirs)."""
        topic = m.DescribeLogDirsRequest.DescribableLogDirTopic
        asked = [
            topic(topic=name, partitions=[index for index, _ in parts])
            for name, parts in by_topic(dict.fromkeys(partitions))
        ]
        found = {}
        for broker in self.brokers():
            if broker.fenced or not asked:
                continue
            answer = self.ask(m.DescribeLogDirsRequest(topics=asked), 4, Address(broker.host, broker.port))
            for row in (row for result in answer.results for row in result.topics):
                for part in row.partitions:
                    key = broker.broker_id, (row.name, part.partition_index)
                    found[key] = Size(part.partition_size, part.offset_lag)
        return found

    def producers(self, partitions: Mapping[Partition, int]) -> dict[Partition, Any]:
        """DescribeProducers' row of each partition, asked of the replica's broker; none of one that is not live."""
        topic = m.DescribeProducersRequest.TopicRequest
        live = {broker.broker_id: broker for broker in self.brokers() if not broker.fenced}
        found = {}
        for node in sorted(live.keys() & set(partitions.values())):
            mine = {partition: None for partition, at in partitions.items() if at == node}
            asked = [topic(name=name, partition_indexes=[index for index, _ in rows]) for name, rows in by_topic(mine)]
            request = m.DescribeProducersRequest(topics=asked)
            answer = self.ask(request, 0, Address(live[node].host, live[node].port))
            found.update({(row.name, part.partition_index): part for row in answer.topics for part in row.partitions})
        return found


def _level(row: Any, at: tuple[int, int]) -> Level | None:
    if row.error_code or row.total_bytes < 0:
        return None
    return judge(row.usable_bytes, marks(row.total_bytes, *at)).level


def _known(size_bytes: int) -> int | None:
    return None if size_bytes < 0 else size_bytes


def sentence(code: int, message: str | None = None) -> str | None:
    """A refusal in words; None for no error."""
    return None if not code else f"{ErrorCode(code).name}{f': {message}' if message else ''}"


def check(code: int, message: str | None = None) -> None:
    """Raises RefusedError unless the code is NONE."""
    if refused := sentence(code, message):
        raise RefusedError(refused)


@contextmanager
def nodes(bootstrap: str | None) -> Iterator[Nodes]:
    """The cluster; refusals end the command with one sentence and status 1."""
    where = address(bootstrap)
    try:
        opened = Nodes(where)
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from None
    try:
        yield opened
    except (NoRoom, RefusedError) as refused:
        typer.echo(str(refused), err=True)
        raise typer.Exit(1) from None
    except (OSError, Malformed) as error:
        typer.echo(f"{where}: {error or type(error).__name__}", err=True)
        raise typer.Exit(1) from None
    finally:
        opened.close()
