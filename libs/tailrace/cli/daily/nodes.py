"""Kafka requests of the commands, asked one at a time; what an answer refuses, at its top or for an item, is raised."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from uuid import UUID

import typer

from tailrace.cli.daily.connection import address, command_settings, runs_here, say
from tailrace.cli.daily.deadline import Deadline
from tailrace.cli.daily.refusals import RefusedError, cause_of, lines, reason, sentence, was_refused
from tailrace.cli.preload import kafka_without_clients
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.resources import ConfigResource
from tailrace.log.directory.disk_pressure import Level, judge, marks
from tailrace.metadata.moves import NoRoom, Partition, Replicas, portions
from tailrace.net.address import Address
from tailrace.net.client import PLAINTEXT, Client, ClientSettings, Disconnected
from tailrace.runtime.clock import SystemClock
from tailrace.wire import messages as m
from tailrace.wire.codec import Malformed
from tailrace.wire.limits import pages
from tailrace.wire.response_errors import response_errors

if TYPE_CHECKING:
    PartitionRow = (
        m.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic.DescribeTopicPartitionsResponsePartition
    )
    ToElect = m.ElectLeadersRequest.TopicPartitions
    ReassignmentRow = m.ListPartitionReassignmentsResponse.OngoingTopicReassignment.OngoingPartitionReassignment

_TIMEOUT_MS = 30_000
_CONNECT_MS = 10_000
CLIENT_ID: Final = "tailrace-cli"
T = TypeVar("T")
_MARKS = ("log.dir.pressure.slow.bytes", "log.dir.pressure.refuse.bytes")
NO_ID: Final = UUID(int=0)  # of a topic that is named
EARLIEST: Final = -2
LATEST: Final = -1
EVERY_CODE: Final = range(-1, 1 << 15)
_WITHOUT_LEADER: Final = frozenset({ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.LISTENER_NOT_FOUND})
_LEADER_MOVED: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.LEADER_NOT_AVAILABLE}
)
_OFFLINE_DIR: Final = frozenset({ErrorCode.KAFKA_STORAGE_ERROR})
# A cluster that has just started, or lost a process, answers these for a moment; nothing was done then.
NOT_YET: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
    }
)
_AGAIN_MS, _TIMES_MAX = 100, 100


class RegisteredBroker(NamedTuple):
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


class BrokerLogDir(NamedTuple):
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


class UnreachableError(Disconnected):
    """A node cannot be reached at the address that another node told; the text says which, and what to set."""


class Nodes:
    """The cluster behind a bootstrap address. Raises OSError, TimeoutError, Malformed or RefusedError."""

    def __init__(
        self,
        bootstrap: str,
        starting: Callable[[], bool] = lambda: False,
        settings: ClientSettings = PLAINTEXT,
        *,
        lasting: bool = False,
        client_id: str = CLIENT_ID,
    ) -> None:
        """starting: whether the bootstrap address will listen soon, so that a refused connection is no answer yet.

        lasting: of a command that goes on until its work is done, or until Ctrl-C.
        """
        self.clock = SystemClock()
        self.deadline = Deadline(self.clock, lasting=lasting)
        self._starting = starting
        self._settings = settings
        self._client_id = client_id
        self.throttle_time_ms = 0  # the most that an answer said (KIP-219)
        self._runner = asyncio.Runner()
        self._bootstrap = [Address.parse(text.strip()) for text in bootstrap.split(",")]
        self._clients: dict[Address, Client] = {}
        self._advertised: dict[Address, int] = {}

    def close(self) -> None:
        for client in self._clients.values():
            self._runner.run(client.close())
        self._runner.close()

    def ask(
        self,
        message: m.ApiMessage,
        version: int | None = None,
        at: Address | None = None,
        *,
        handled: Container[int] = (),
        again: Container[int] = NOT_YET,
    ) -> Any:
        """One request to one node: the first of the bootstrap list that can be reached, unless told which.

        Raises RefusedError for every error in the answer, but those of single items that the caller says it handles.
        Where nothing was done yet, which the errors of `again` say, it is asked again for some seconds.
        """
        times = 0
        while True:
            answer = self._answer(message, version, at)
            errors = [
                error
                for error in response_errors(message.API_KEY, answer)
                if not error.names or error.code not in handled
            ]
            if not errors:
                return answer
            if times == _TIMES_MAX or not all(error.code in again for error in errors):
                raise RefusedError(lines(errors))
            times += 1
            self.pause(_AGAIN_MS)

    def _answer(self, message: m.ApiMessage, version: int | None, at: Address | None) -> Any:
        for times in range(_TIMES_MAX + 1):
            self.deadline.check()
            try:
                return self.run(self.exchange(message, version, at))
            except Disconnected as error:
                if times == _TIMES_MAX or at or not was_refused(error) or not self._starting():
                    raise
            self.pause(_AGAIN_MS)
        raise AssertionError("unreachable")

    def run(self, coroutine: Coroutine[None, None, T]) -> T:
        """Runs a coroutine to its end."""
        return self._runner.run(coroutine)

    async def exchange(self, message: m.ApiMessage, version: int | None, at: Address | None = None) -> Any:
        """One request to a node: the first of the bootstrap list that can be reached, unless told which.

        Raises Disconnected, UnreachableError or TimeoutError.
        """
        tried: Disconnected | TimeoutError | None = None
        for target in [at] if at else self._bootstrap:
            client = self._client(target)
            try:
                await self._connect(client, target is at)
                answer = await client.ask(message, timeout_ms=self.deadline.left_ms(_TIMEOUT_MS), version=version)
            except Disconnected as error:
                tried = error
            except TimeoutError:
                tried = TimeoutError(f"no answer from {target} in time; `tailrace status` shows what is wrong")
            else:
                self._advertised.update(advertised(answer))
                self.throttle_time_ms = max(self.throttle_time_ms, getattr(answer, "throttle_time_ms", 0))
                return answer
        assert tried is not None
        raise tried

    async def _connect(self, client: Client, is_advertised: bool) -> None:
        """told: the address is one that the cluster named, which must be reachable from here."""
        try:
            await client.connect(self.deadline.left_ms(_CONNECT_MS))
        except (Disconnected, TimeoutError) as error:
            if is_advertised:
                raise self._unreachable(client.address, error) from None
            raise

    def _client(self, at: Address) -> Client:
        if at not in self._clients:
            self._clients[at] = Client(at, self._client_id, tls=self._settings.tls, login=self._settings.login)
        return self._clients[at]

    def check(self, at: Address) -> None:
        """Raises UnreachableError if a node cannot be reached at the address that the bootstrap address told."""
        self.run(self._connect(self._client(at), is_advertised=True))

    def check_leaders(self, topic: str) -> None:
        """Raises RefusedError for an unknown topic, and UnreachableError for a leader that cannot be reached."""
        leaders = {row.leader_id for row in self.partitions([topic]).values()}
        for broker in self.brokers():
            if broker.broker_id in leaders and not broker.fenced:
                self.check(Address(broker.host, broker.port))

    def _unreachable(self, at: Address, error: Exception) -> UnreachableError:
        where = ",".join(map(str, self._bootstrap))
        return UnreachableError(
            f"{where} answers, and says that node {self._advertised.get(at, '?')} is at {at}, but there "
            f"{cause_of(error) or 'is no answer'}. Advertise an address that this machine reaches: `tailrace up "
            "--advertise HOST:PORT`, or gateway.advertised.host and gateway.advertised.port"
        )

    def pause(self, time_ms: float) -> None:
        """Lets the cluster work for a while before the next question."""
        self.run(self.clock.sleep(time_ms))

    def brokers(self) -> list[RegisteredBroker]:
        """All registered brokers by id, fenced ones too (KIP-1073)."""
        answer = self.ask(m.DescribeClusterRequest(include_fenced_brokers=True, endpoint_type=1), 2)
        rows = [RegisteredBroker(row.broker_id, row.host, row.port, row.rack, row.is_fenced) for row in answer.brokers]
        return sorted(rows)

    def addresses(self) -> dict[int, Address]:
        """Where each broker is that is not fenced, by id."""
        return {broker.broker_id: Address(broker.host, broker.port) for broker in self.brokers() if not broker.fenced}

    def ask_each(self, message: m.ApiMessage, version: int) -> Iterator[tuple[int, Address, Any]]:
        """The id, the address and the answer of every broker that is not fenced, by id."""
        for broker in self.brokers():
            if not broker.fenced:
                at = Address(broker.host, broker.port)
                yield broker.broker_id, at, self.ask(message, version, at)

    def partitions(self, topics: Iterable[str] = ()) -> dict[Partition, PartitionRow]:
        """The rows of DescribeTopicPartitions, of all topics if none is named. An unknown topic is refused."""
        found: dict[Partition, PartitionRow] = {}
        for names in pages(list(topics)) or [[]]:
            found |= self._partitions(names)
        return found

    def _partitions(self, names: Sequence[str]) -> dict[Partition, PartitionRow]:
        found: dict[Partition, PartitionRow] = {}
        row, cursor = m.DescribeTopicPartitionsRequest.TopicRequest, None
        asked = [row(name=name) for name in names]
        while True:
            request = m.DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=2000, cursor=cursor)
            answer = self.ask(request, 0, handled=_WITHOUT_LEADER)
            for topic in answer.topics:
                found.update({(topic.name, part.partition_index): part for part in topic.partitions})
            if answer.next_cursor is None:
                return found
            at = answer.next_cursor
            cursor = m.DescribeTopicPartitionsRequest.Cursor(
                topic_name=at.topic_name, partition_index=at.partition_index
            )

    def coordinator(self, key: str, key_type: int = 0) -> Address:
        """The node that the requests of a group (key type 0) or transactional id (1) go to."""
        found = self.ask(m.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 4).coordinators
        return Address(found[0].host, found[0].port)

    def offsets(
        self, partitions: Mapping[Partition, int], timestamp: int, *, read_committed: bool = False
    ) -> dict[Partition, int]:
        """ListOffsets at a timestamp (or EARLIEST, LATEST) of partitions, asked of the brokers that lead them."""
        topic = m.ListOffsetsRequest.ListOffsetsTopic
        row = topic.ListOffsetsPartition
        live = self.addresses()
        found: dict[Partition, int] = {}
        for node in sorted(set(partitions.values()) & live.keys()):
            mine = dict.fromkeys(key for key, leader in partitions.items() if leader == node)
            for portion in portions(mine):
                topics = [
                    topic(
                        name=name,
                        partitions=[
                            row(partition_index=index, current_leader_epoch=-1, timestamp=timestamp)
                            for index, _ in rows
                        ],
                    )
                    for name, rows in portion
                ]
                request = m.ListOffsetsRequest(replica_id=-1, isolation_level=int(read_committed), topics=topics)
                answer = self.ask(request, 7, live[node], handled=_LEADER_MOVED)
                found.update(
                    {
                        (done.name, part.partition_index): part.offset
                        for done in answer.topics
                        for part in done.partitions
                        if not part.error_code
                    }
                )
        return found

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
        request = m.AlterPartitionReassignmentsRequest(topics=rows, timeout_ms=_TIMEOUT_MS)
        answer = self.ask(request, handled=EVERY_CODE)
        return {
            (done.name, part.partition_index): sentence(part.error_code, part.error_message)
            for done in answer.responses
            for part in done.partitions
        }

    def reassignments(self) -> dict[Partition, ReassignmentRow]:
        """What is being reassigned now: replicas, adding_replicas, removing_replicas."""
        answer = self.ask(m.ListPartitionReassignmentsRequest(topics=None, timeout_ms=_TIMEOUT_MS))
        return {(topic.name, part.partition_index): part for topic in answer.topics for part in topic.partitions}

    def elect(self, partitions: Iterable[Partition] | None, *, unclean: bool) -> dict[Partition, str | None]:
        """Elects preferred (or, unclean, any live) leaders; None means all partitions. Needless ones have no row."""
        if partitions is None:
            return self._elect(None, unclean=unclean)
        topic, found = m.ElectLeadersRequest.TopicPartitions, dict[Partition, str | None]()
        for portion in portions(dict.fromkeys(partitions)):
            rows = [topic(topic=name, partitions=[index for index, _ in parts]) for name, parts in portion]
            found |= self._elect(rows, unclean=unclean)
        return found

    def _elect(self, rows: list[ToElect] | None, *, unclean: bool) -> dict[Partition, str | None]:
        request = m.ElectLeadersRequest(election_type=int(unclean), topic_partitions=rows, timeout_ms=_TIMEOUT_MS)
        answer = self.ask(request, 2, handled=EVERY_CODE)
        return {
            (done.topic, part.partition_id): sentence(part.error_code, part.error_message)
            for done in answer.replica_election_results
            for part in done.partition_result
            if part.error_code != ErrorCode.ELECTION_NOT_NEEDED
        }

    def unregister(self, broker_id: int) -> None:
        """Forgets a broker that is away for good (UnregisterBroker)."""
        self.ask(m.UnregisterBrokerRequest(broker_id=broker_id))

    def log_dirs(self) -> list[BrokerLogDir]:
        """Every live broker's log directories."""
        found = []
        for broker in self.brokers():
            if broker.fenced:
                continue
            at = Address(broker.host, broker.port)
            answer = self.ask(m.DescribeLogDirsRequest(topics=None), 4, at, handled=_OFFLINE_DIR)
            bounds = self._pressure_marks(broker)
            for row in answer.results:
                parts = [part for topic in row.topics for part in topic.partitions]
                found.append(
                    BrokerLogDir(
                        broker.broker_id,
                        row.log_dir,
                        row.error_code,
                        None if row.error_code else sum(part.partition_size for part in parts),
                        _known(row.usable_bytes),
                        _known(row.total_bytes),
                        sum(not part.is_future_key for part in parts),
                        sum(part.is_future_key for part in parts),
                        _level(row, bounds),
                    )
                )
        return found

    def _pressure_marks(self, broker: RegisteredBroker) -> tuple[int, int]:
        """Its log.dir.pressure.slow.bytes and .refuse.bytes; 0, never, where it does not say."""
        asked = m.DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=ConfigResource.BROKER, resource_name=str(broker.broker_id), configuration_keys=list(_MARKS)
        )
        answer = self.ask(m.DescribeConfigsRequest(resources=[asked]), 4, Address(broker.host, broker.port))
        said = {row.name: int(row.value) for result in answer.results for row in result.configs if row.value}
        return said.get(_MARKS[0], 0), said.get(_MARKS[1], 0)

    def move_to_log_dir(self, broker: RegisteredBroker, path: str, partitions: Iterable[Partition]) -> None:
        """Begins to move a broker's replicas to one of its log directories."""
        row = m.AlterReplicaLogDirsRequest.AlterReplicaLogDir
        for portion in portions(dict.fromkeys(partitions)):
            topics = [
                row.AlterReplicaLogDirTopic(name=name, partitions=[index for index, _ in parts])
                for name, parts in portion
            ]
            request = m.AlterReplicaLogDirsRequest(dirs=[row(path=path, topics=topics)])
            self.ask(request, 2, Address(broker.host, broker.port))

    def sizes(self, partitions: Iterable[Partition]) -> dict[tuple[int, Partition], Size]:
        """What each live broker's log directories hold of these partitions (DescribeLogDirs)."""
        topic = m.DescribeLogDirsRequest.DescribableLogDirTopic
        live = [broker for broker in self.brokers() if not broker.fenced]
        found: dict[tuple[int, Partition], Size] = {}
        for portion in portions(dict.fromkeys(partitions)):
            asked = [topic(topic=name, partitions=[index for index, _ in parts]) for name, parts in portion]
            for broker in live:
                at = Address(broker.host, broker.port)
                answer = self.ask(m.DescribeLogDirsRequest(topics=asked), 4, at, handled=_OFFLINE_DIR)
                for row in (row for result in answer.results for row in result.topics):
                    for part in row.partitions:
                        key = broker.broker_id, (row.name, part.partition_index)
                        found[key] = Size(part.partition_size, part.offset_lag)
        return found

    def producers(self, partitions: Mapping[Partition, int]) -> dict[Partition, Any]:
        """DescribeProducers' row of each partition, asked of the replica's broker; none of one that is not live."""
        topic = m.DescribeProducersRequest.TopicRequest
        live = self.addresses()
        found = {}
        for node in sorted(live.keys() & set(partitions.values())):
            mine = {partition: None for partition, at in partitions.items() if at == node}
            for portion in portions(mine):
                asked = [topic(name=name, partition_indexes=[index for index, _ in rows]) for name, rows in portion]
                request = m.DescribeProducersRequest(topics=asked)
                answer = self.ask(request, 0, live[node], handled=EVERY_CODE)
                for row in answer.topics:
                    found.update({(row.name, part.partition_index): part for part in row.partitions})
        return found


def _level(row: m.DescribeLogDirsResponse.DescribeLogDirsResult, at: tuple[int, int]) -> Level | None:
    if row.error_code or row.total_bytes < 0:
        return None
    return judge(row.usable_bytes, marks(row.total_bytes, *at)).level


def _known(size_bytes: int) -> int | None:
    return None if size_bytes < 0 else size_bytes


@contextmanager
def nodes(
    bootstrap: str | None, *, settings: ClientSettings | None = None, lasting: bool = False, client_id: str = CLIENT_ID
) -> Iterator[Nodes]:
    """The cluster; refusals end the command with one sentence and status 1. lasting: as Nodes has it.

    settings: else those of --command-config.
    """
    where = address(bootstrap)
    try:
        opened = Nodes(
            where, partial(runs_here, where), settings or command_settings(), lasting=lasting, client_id=client_id
        )
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from None
    try:
        with kafka_without_clients():  # messages are built at their first use
            yield opened
    except (NoRoom, RefusedError, UnreachableError) as refused:
        say(str(refused), err=True)
        raise typer.Exit(1) from None
    except ApiError as refused:
        say(": ".join(filter(None, (refused.message, sentence(refused.code)))), err=True)
        raise typer.Exit(1) from None
    except Disconnected as error:
        say(f"{where}: {reason(error)}", err=True)
        raise typer.Exit(1) from None
    except UnicodeEncodeError as wrong:
        raise typer.BadParameter(f"{wrong.object!r} is not UTF-8") from None
    except TimeoutError as error:
        say(f"{where}: {error}", err=True)
        raise typer.Exit(1) from None
    except Malformed as error:
        say(f"{where}: not an answer of Kafka's protocol: {error}", err=True)
        raise typer.Exit(1) from None
    finally:
        opened.close()


def advertised(answer: Any) -> Iterator[tuple[Address, int]]:
    """Where the nodes are that an answer names, with their ids: of Metadata, DescribeCluster and FindCoordinator."""
    for row in (*getattr(answer, "brokers", ()), *getattr(answer, "coordinators", ())):
        if row.host:
            node_id = row.broker_id if hasattr(row, "broker_id") else row.node_id
            yield Address(row.host, row.port), node_id
