"""The steps of an examination, from a name to a record that is read back."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from tailrace.cli.daily.connection import counted
from tailrace.cli.daily.nodes import NO_ID, NOT_YET, Nodes
from tailrace.cli.daily.refusals import RefusedError, reason, sentence
from tailrace.cli.doctor.finding import (
    PartitionState,
    State,
    StepFinding,
    TopicState,
    of_certificate,
    of_clock,
    of_quotas,
    of_throttle,
    of_topics,
)
from tailrace.cli.doctor.probe import AddressProbe, probe, speaks_tls
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.resources import ConfigResource
from tailrace.kafka.topics import GROUP_METADATA_TOPIC
from tailrace.net.address import Address
from tailrace.net.client import ClientSettings, Disconnected, NotLoggedIn
from tailrace.reading.reader import TopicReader
from tailrace.reading.start import LATEST_TIMESTAMP, Start, parse_start
from tailrace.records.record import Record, build
from tailrace.wire import messages as m
from tailrace.wire.codec import Malformed
from tailrace.wire.limits import pages

_FAILURES: Final = (RefusedError, ApiError, Disconnected, TimeoutError, Malformed)
_TOPICS_MAX: Final = 2_000
_TIMEOUT_MS: Final = 30_000
_WAIT_MS: Final = 500
_SOFTWARE: Final = ("tailrace-doctor", "1")
_MIN_ISR: Final = "min.insync.replicas"
_PRODUCE_VERSION: Final = 9
_NOT_LED_YET: Final = NOT_YET | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
_NO_MECHANISM: Final = "-"
_ANONYMOUS: Final = "ANONYMOUS"


class ExaminedClient(NamedTuple):
    """Which client is examined, and how far: with `write`, a record goes there and back."""

    bootstrap: tuple[Address, ...]
    settings: ClientSettings
    client_id: str
    topic: str | None
    write: bool

    @property
    def client(self) -> dict[str, str]:
        """What quotas are by: the user, and the client id. With TLS alone a certificate may say the user."""
        login, ids = self.settings.login, {"client-id": self.client_id}
        if login is not None:
            return {"user": login.username} | ids
        return {"user": _ANONYMOUS} | ids if self.settings.tls is None else ids


def examine(cluster: Nodes, wish: ExaminedClient, probe: AddressProbe = probe) -> Iterator[StepFinding]:
    """Yields a finding for each step; what makes the next steps impossible is the last."""
    by_address = {at: _bootstrap(cluster, wish, at, probe) for at in wish.bootstrap}
    found = [finding for findings in by_address.values() for finding in findings]
    reached = next((at for at, findings in by_address.items() if findings[0].state is not State.FAIL), None)
    if reached is None:
        yield from found
        return
    # A client tries the next address of the list.
    yield from (finding._replace(state=State.WARN) if finding.state is State.FAIL else finding for finding in found)
    first = list(_guarded("login", lambda: _first_words(cluster, wish, reached)))
    yield from first
    if any(finding.state is State.FAIL for finding in first):
        return
    yield from _guarded("addresses", lambda: _addresses(cluster, wish, probe))
    yield from _guarded("topics", lambda: _topics(cluster, wish.topic))
    yield from _guarded("groups", lambda: _groups(cluster))
    yield from _guarded("quotas", lambda: _quotas(cluster, wish), State.WARN)
    yield from _guarded("record", lambda: _there_and_back(cluster, wish))
    yield of_throttle(cluster.throttle_time_ms, wish.client)


def _guarded(step: str, run: Callable[[], Iterable[StepFinding]], state: State = State.FAIL) -> Iterator[StepFinding]:
    try:
        yield from run()
    except _FAILURES as error:
        yield StepFinding(step, state, _words(error))


def _words(error: Exception) -> str:
    if isinstance(error, RefusedError):
        return str(error)
    if isinstance(error, Disconnected):
        return str(error) if type(error) is not Disconnected else reason(error)
    if isinstance(error, ApiError):
        return ": ".join(filter(None, (error.message, sentence(error.code))))
    return str(error)


def _bootstrap(cluster: Nodes, wish: ExaminedClient, at: Address, probe: AddressProbe) -> list[StepFinding]:
    seen = cluster.run(probe(at, wish.settings.tls))
    if seen.trouble is not None:
        return [StepFinding("bootstrap", State.FAIL, *seen.trouble)]
    found = [StepFinding("bootstrap", State.OK, f"{at} is {', '.join(seen.ips)}, and takes connections")]
    if seen.ends_ms is not None:
        found.append(of_certificate(str(at), seen.names, seen.ends_ms, cluster.clock.wall_ms()))
    return found


def _first_words(cluster: Nodes, wish: ExaminedClient, at: Address) -> Iterator[StepFinding]:
    """The login, ApiVersions, and which cluster it is."""
    name, version = _SOFTWARE
    login = wish.settings.login
    try:
        answer = cluster.ask(m.ApiVersionsRequest(client_software_name=name, client_software_version=version), 3)
        who = cluster.ask(m.DescribeClusterRequest(include_fenced_brokers=True, endpoint_type=1), 2)
    except NotLoggedIn as refused:
        yield StepFinding(
            "login",
            State.FAIL,
            f"the login is refused: {refused}",
            "Look at sasl.jaas.config and sasl.mechanism in --command-config",
        )
        return
    except Disconnected as broken:
        yield cluster.run(_why_closed(cluster, wish, at, broken))
        return
    live = sum(not row.is_fenced for row in who.brokers)
    if login is not None:
        yield StepFinding("login", State.OK, f"{login.username} logs in by {login.mechanism}")
    yield StepFinding("api versions", State.OK, f"{len(answer.api_keys)} APIs are served")
    yield StepFinding("cluster", State.OK, f"it is cluster {who.cluster_id}, with {counted(live, 'live broker')}")


async def _why_closed(cluster: Nodes, wish: ExaminedClient, at: Address, broken: Disconnected) -> StepFinding:
    """A port with TLS or a login closes the connection of a client that has neither."""
    if wish.settings.tls is None and await speaks_tls(at):
        return StepFinding(
            "login",
            State.FAIL,
            f"{at} speaks TLS, and this client does not",
            "Set security.protocol=SSL or SASL_SSL, and ssl.truststore.location, in --command-config",
        )
    if wish.settings.login is None:
        try:
            answer = await cluster.exchange(m.SaslHandshakeRequest(mechanism=_NO_MECHANISM), 1)
        except (Disconnected, TimeoutError, Malformed):
            pass
        else:
            if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
                return StepFinding(
                    "login",
                    State.FAIL,
                    f"{at} asks for a login ({', '.join(answer.mechanisms)}), and this client has none",
                    "Set security.protocol=SASL_PLAINTEXT or SASL_SSL, sasl.mechanism and sasl.jaas.config",
                )
    return StepFinding("login", State.FAIL, reason(broken))


def _addresses(cluster: Nodes, wish: ExaminedClient, probe: AddressProbe) -> Iterator[StepFinding]:
    """Every address that the cluster tells clients: what they use after the first answer."""
    describe = m.DescribeClusterRequest(include_fenced_brokers=True, endpoint_type=1)
    known = cluster.ask(describe, 2)
    for broker in sorted((row for row in known.brokers if not row.is_fenced), key=lambda row: row.broker_id):
        at = Address(broker.host, broker.port)
        seen = cluster.run(probe(at, wish.settings.tls))
        told = f"broker {broker.broker_id} is advertised at {at}"
        if seen.trouble is not None:
            yield StepFinding(
                "addresses",
                State.FAIL,
                f"{told}, but {seen.trouble.sentence}",
                f"{seen.trouble.advice}. Or advertise another address: `tailrace up --advertise HOST:PORT`, or "
                "gateway.advertised.host and gateway.advertised.port; beside `listeners` it is advertised.listeners",
            )
            continue
        there = cluster.ask(describe, 2, at).cluster_id
        if there != known.cluster_id:
            yield StepFinding(
                "addresses",
                State.FAIL,
                f"{told}, but there answers cluster {there}",
                "Two clusters share it: each needs its own gateway.advertised.port or advertised.listeners",
            )
        else:
            yield StepFinding("addresses", State.OK, f"{told}, and answers there ({', '.join(seen.ips)})")


def _topics(cluster: Nodes, topic: str | None) -> Iterator[StepFinding]:
    found = cluster.partitions([] if topic is None else [topic])
    if not found:
        yield StepFinding("topics", State.OK, "there is no topic yet that this client sees")
        return
    rows: dict[str, dict[int, PartitionState]] = {}
    for (name, index), part in sorted(found.items()):
        rows.setdefault(name, {})[index] = (part.replica_nodes, part.isr_nodes, part.leader_id)
    names = sorted(rows)[:_TOPICS_MAX]
    least = _min_insync_replicas(cluster, names)
    if hidden := len(names) - len(least):
        yield StepFinding(
            "topics", State.SKIP, f"{_MIN_ISR} of {counted(hidden, 'topic')} is not shown to this client: taken as 1"
        )
    yield of_topics([TopicState(name, rows[name], least.get(name, 1)) for name in names])
    if len(rows) > len(names):
        yield StepFinding(
            "topics", State.SKIP, f"{len(rows) - len(names)} more topics are not looked at; --topic names one"
        )


def _min_insync_replicas(cluster: Nodes, names: list[str]) -> Mapping[str, int]:
    """By topic, where it is shown: clients need no right to see it."""
    resource = m.DescribeConfigsRequest.DescribeConfigsResource
    found = {}
    for some in pages(names):
        asked = [
            resource(resource_type=ConfigResource.TOPIC, resource_name=name, configuration_keys=[_MIN_ISR])
            for name in some
        ]
        request = m.DescribeConfigsRequest(resources=asked)
        for result in cluster.ask(request, 4, handled={ErrorCode.TOPIC_AUTHORIZATION_FAILED}).results:
            for row in result.configs:
                if row.name == _MIN_ISR and (row.value or "").isdecimal():
                    found[result.resource_name] = int(row.value)
    return found


def _groups(cluster: Nodes) -> Iterator[StepFinding]:
    """Whether a group would find its coordinator; the topic of offsets is not made for this."""
    topic = m.MetadataRequest.MetadataRequestTopic(name=GROUP_METADATA_TOPIC, topic_id=NO_ID)
    request = m.MetadataRequest(topics=[topic], allow_auto_topic_creation=False)
    answer = cluster.ask(
        request, 12, handled={ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    )
    (row,) = answer.topics
    if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        yield StepFinding("groups", State.OK, f"{GROUP_METADATA_TOPIC} does not exist yet; the first group makes it")
        return
    if row.error_code:
        yield StepFinding("groups", State.SKIP, f"{GROUP_METADATA_TOPIC} is not shown to this client")
    elif leaderless := [part.partition_index for part in row.partitions if part.leader_id < 0]:
        yield StepFinding(
            "groups",
            State.FAIL,
            f"{len(leaderless)} of {len(row.partitions)} partitions of {GROUP_METADATA_TOPIC} have no leader: "
            "their groups wait",
            "Start the brokers that are away; `tailrace status` names them",
        )
    else:
        yield StepFinding(
            "groups", State.OK, f"{GROUP_METADATA_TOPIC} has a leader for each of {len(row.partitions)} partitions"
        )


def _quotas(cluster: Nodes, wish: ExaminedClient) -> Iterator[StepFinding]:
    answer = cluster.ask(m.DescribeClientQuotasRequest(components=[], strict=False), 1)
    entries = [
        ({part.entity_type: part.entity_name for part in entry.entity}, {one.key: one.value for one in entry.values})
        for entry in answer.entries or ()
    ]
    yield of_quotas(entries, wish.client)


def _there_and_back(cluster: Nodes, wish: ExaminedClient) -> Iterator[StepFinding]:
    if not wish.write:
        if wish.topic is None:
            yield StepFinding("record", State.SKIP, "no record is written or read; --write does, to a topic of its own")
        else:
            yield _last_record(cluster, wish.topic)
        return
    if wish.topic is not None:
        yield from _written(cluster, wish.topic, f"It stays in {wish.topic}")
        return
    own = f"tailrace-doctor-{secrets.token_hex(4)}"
    _create(cluster, own)
    try:
        yield from _written(cluster, own, "The topic is deleted again")
    finally:
        row = m.DeleteTopicsRequest.DeleteTopicState(name=own, topic_id=NO_ID)
        cluster.ask(m.DeleteTopicsRequest(topics=[row], timeout_ms=_TIMEOUT_MS), 6)


def _create(cluster: Nodes, name: str) -> None:
    topic = m.CreateTopicsRequest.CreatableTopic
    configs = [topic.CreatableTopicConfig(name="message.timestamp.type", value="LogAppendTime")]
    row = topic(name=name, num_partitions=1, replication_factor=-1, assignments=[], configs=configs)
    cluster.ask(m.CreateTopicsRequest(topics=[row], timeout_ms=_TIMEOUT_MS, validate_only=False), 7)


def _written(cluster: Nodes, topic: str, after: str) -> Iterator[StepFinding]:
    """A record at acks=all, read back at its offset; the leader's clock, where it stamps records."""
    request = m.DescribeTopicPartitionsRequest(
        topics=[m.DescribeTopicPartitionsRequest.TopicRequest(name=topic)], response_partition_limit=1, cursor=None
    )
    part = cluster.ask(request, 0, again=_NOT_LED_YET).topics[0].partitions[0]
    value = f"tailrace doctor {secrets.token_hex(8)}".encode()
    begun_ms = cluster.clock.wall_ms()
    row = m.ProduceRequest.TopicProduceData
    record = Record(timestamp=begun_ms, value=value)
    data = row.PartitionProduceData(index=part.partition_index, records=bytes(build([record])))
    produce = m.ProduceRequest(
        transactional_id=None, acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=[row(name=topic, partition_data=[data])]
    )
    answer = cluster.ask(produce, _PRODUCE_VERSION, cluster.addresses()[part.leader_id], again=_NOT_LED_YET)
    ended_ms = cluster.clock.wall_ms()
    (written,) = answer.responses[0].partition_responses
    took_ms = ended_ms - begun_ms
    place = f"{topic}-{part.partition_index}, offset {written.base_offset}"
    yield StepFinding("write", State.OK, f"a record is written at acks=all in {took_ms:.0f} ms ({place}). {after}")
    back = _read(cluster, topic, part.partition_index, Start(offset=written.base_offset))
    if value in back:
        yield StepFinding("read", State.OK, "the record is read back")
    else:
        yield StepFinding("read", State.FAIL, f"the record is not at {place}, where it was acknowledged")
    if written.log_append_time_ms >= 0:
        yield of_clock((begun_ms + ended_ms) / 2, written.log_append_time_ms, took_ms)


def _last_record(cluster: Nodes, topic: str) -> StepFinding:
    found = _read(cluster, topic, None, parse_start("-1"))
    if not found:
        return StepFinding("read", State.OK, f"{topic} is read, and has no record; --write writes one")
    return StepFinding("read", State.OK, f"the last records of {topic} are read ({len(found)}); --write writes one")


def _read(cluster: Nodes, topic: str, partition: int | None, start: Start) -> list[bytes | None]:
    """The values from a place to the end as it is now."""
    patience_ms = cluster.deadline.patience_ms
    reader = TopicReader(cluster.exchange, cluster.clock, topic, patience_ms=patience_ms)

    async def read() -> list[bytes | None]:
        found: list[bytes | None] = []
        try:
            wanted = None if partition is None else [partition]
            reader.assign(await reader.find(start, until=LATEST_TIMESTAMP, partitions=wanted))
            while not reader.done:
                cluster.deadline.check("records")
                found += [record.value for _, record in await reader.poll(_WAIT_MS)]
        finally:
            await reader.close()
        return found

    return cluster.run(read())
