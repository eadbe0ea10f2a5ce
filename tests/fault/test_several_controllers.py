"""Three controllers as processes on a real PostgreSQL server, with a producer at work that must not notice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import InvalidReplicationFactorError, RequestTimedOutError, TopicAlreadyExistsError

from support import slow_sync
from support.clock_skew import ClockSkew
from support.load import Load, check, read_all
from support.plugin import leave_out
from support.ports import free_ports
from support.postgres import Postgres, binary
from support.unretrieved import leaves_no_exception_behind
from support.waiting import HUNG_S, until
from tailrace.testing import Cluster

CONTROLLERS = 3
# kafka-python leaves the sockets of refused connects to the garbage collector, which warns.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    if binary("initdb") is None:
        leave_out("apt-get install postgresql")
    with Postgres() as server:
        yield server


def started(postgres: Postgres, environ: dict[str, str] | None = None) -> Cluster:
    arguments = ["--controllers", str(CONTROLLERS), "--metadata-url", postgres.empty(), "--gateways", "2"]
    return Cluster(brokers=1, port=free_ports(2), arguments=arguments, environ=environ)


@pytest.fixture
def cluster(postgres: Postgres) -> Iterator[Cluster]:
    with started(postgres) as running:
        yield running
        leaves_no_exception_behind(running)


@pytest.fixture
def skewed(postgres: Postgres, tmp_path: Path) -> Iterator[tuple[Cluster, ClockSkew]]:
    """A cluster whose every service believes in the clock given; the database and the clients have their own."""
    if absent := slow_sync.missing():
        leave_out(absent)
    skew = ClockSkew(tmp_path)
    with started(postgres, skew.environ) as running:
        yield running, skew


def create(cluster: Cluster, name: str, **configs: str) -> str:
    """Asks again, as Kafka's own clients do, when the controller went away with the request: it may have acted.

    And as a person does while the only broker is fenced, as it is until a new controller has its registration.
    """
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)

    def ask() -> bool:
        try:
            admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1, "configs": configs}})
        except (RequestTimedOutError, InvalidReplicationFactorError):
            return False
        except TopicAlreadyExistsError:
            return True
        return True

    try:
        until(ask, f"topic {name} is created")
    finally:
        admin.close()
    return name


def holder(postgres: Postgres) -> tuple[int, int]:
    """Who has the lease, in which epoch."""
    ((number, epoch),) = postgres.query("select holder, epoch from lease")
    assert isinstance(number, int) and isinstance(epoch, int)
    return number, epoch


def successor(postgres: Postgres, old: tuple[int, int]) -> tuple[int, int]:
    def look() -> tuple[int, int] | None:
        now = holder(postgres)
        return now if now[1] > old[1] and now[0] >= 0 else None

    return until(look, "a controller of a higher epoch")


def renewed(postgres: Postgres, times: int) -> None:
    """Returns when the lease's holder has said that many times more that it is there, or somebody else has it."""

    def look() -> tuple[int, int]:
        ((renewals, epoch),) = postgres.query("select renewals, epoch from lease")
        assert isinstance(renewals, int) and isinstance(epoch, int)
        return epoch, renewals

    epoch, renewals = look()
    until(lambda: look() >= (epoch, renewals + times), "the lease is renewed")


def clock_of(cluster: Cluster) -> datetime:
    """What the broker believes the time is."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
    try:
        written = producer.send("stamped", b"what time is it?").get(timeout=HUNG_S)
    finally:
        producer.close()
    return datetime.fromtimestamp(written.timestamp / 1000, UTC)


def registrations(postgres: Postgres) -> list[tuple[object, ...]]:
    return postgres.query("select broker_id, broker_epoch, state from brokers order by broker_id")


def no_epoch_has_two_deciders(postgres: Postgres) -> None:
    """The log is dense, its epochs only grow, and each of them was taken once: the lease row counts them."""
    rows = postgres.query('select "offset", epoch from records order by "offset"')
    assert [row[0] for row in rows] == list(range(len(rows)))
    epochs = [int(str(row[1])) for row in rows]
    assert epochs == sorted(epochs)
    assert epochs[-1] <= holder(postgres)[1]


def test_a_zombie_controller_decides_nothing_and_follows_its_successor(cluster: Cluster, postgres: Postgres) -> None:
    topic = create(cluster, "steady")
    zombie = holder(postgres)
    with Load(cluster.bootstrap, topic) as load:
        load.wait_for(200)
        cluster.pause("controller", zombie[0])
        try:
            # asked of the zombie, which took the request and says nothing; its successor answers
            create(cluster, "asked-of-a-zombie")
            following = successor(postgres, zombie)
            create(cluster, "decided-by-the-successor")
        finally:
            cluster.resume("controller", zombie[0])
        load.wait_for(500)
        create(cluster, "after")
        cluster.kill("controller", following[0])
        create(cluster, "after-the-successor")
        load.wait_for(500)
    assert load.promised.failed == []
    check(load.promised, read_all(cluster.bootstrap, topic))
    names = {row[0] for row in postgres.query("select name from topics")}
    assert {"asked-of-a-zombie", "decided-by-the-successor", "after", "after-the-successor"} <= names
    no_epoch_has_two_deciders(postgres)


def test_the_data_plane_goes_on_on_its_last_image_while_the_database_is_away(
    cluster: Cluster, postgres: Postgres
) -> None:
    topic = create(cluster, "steady")
    before = holder(postgres)
    with Load(cluster.bootstrap, topic) as load:
        load.wait_for(200)
        postgres.stop(signal.SIGQUIT)
        try:
            load.wait_for(1000)
            for role, number in (("gateway", 0), ("broker", 0), ("controller", before[0])):
                cluster.kill(role, number)
                load.wait_for(200)
        finally:
            postgres.start()
        successor(postgres, before)
        create(cluster, "after")
        load.wait_for(200)
    assert load.promised.failed == []
    check(load.promised, read_all(cluster.bootstrap, topic))
    no_epoch_has_two_deciders(postgres)


def test_a_database_that_hangs_is_given_up_and_taken_again_when_it_goes_on(
    cluster: Cluster, postgres: Postgres
) -> None:
    topic = create(cluster, "steady")
    before = holder(postgres)
    with Load(cluster.bootstrap, topic) as load:
        load.wait_for(200)
        postgres.pause()
        try:
            load.wait_for(1000)
        finally:
            postgres.resume()
        create(cluster, "after")
        load.wait_for(200)
    assert load.promised.failed == []
    check(load.promised, read_all(cluster.bootstrap, topic))
    assert holder(postgres)[1] >= before[1]
    no_epoch_has_two_deciders(postgres)


def test_every_controller_may_die_one_after_the_other(cluster: Cluster, postgres: Postgres) -> None:
    topic = create(cluster, "steady")
    with Load(cluster.bootstrap, topic) as load:
        for number in range(2 * CONTROLLERS):
            old = holder(postgres)
            os.kill(cluster.process_id("controller", old[0]), signal.SIGKILL if number % 2 else signal.SIGTERM)
            successor(postgres, old)
            create(cluster, f"topic-{number}")
            load.wait_for(50)
    assert load.promised.failed == []
    check(load.promised, read_all(cluster.bootstrap, topic))
    no_epoch_has_two_deciders(postgres)


def test_clocks_that_jump_both_ways_depose_nobody_and_fence_nobody(
    skewed: tuple[Cluster, ClockSkew], postgres: Postgres
) -> None:
    cluster, skew = skewed
    topic = create(cluster, "steady")
    create(cluster, "stamped", **{"message.timestamp.type": "LogAppendTime"})
    before, brokers = holder(postgres), registrations(postgres)
    with Load(cluster.bootstrap, topic) as load:
        load.wait_for(200)
        for number, minutes in enumerate((30, -30, 0)):  # an hour off, and records would be refused as Kafka's are
            skew.set(minutes * 60)
            assert round((clock_of(cluster) - datetime.now(UTC)) / timedelta(minutes=1)) == minutes
            renewed(postgres, 3)
            create(cluster, f"at-{number}")
            load.wait_for(200)
            assert (holder(postgres), registrations(postgres)) == (before, brokers)
        skew.set(-1800)
        cluster.kill("controller", before[0])
        successor(postgres, before)
        create(cluster, "after")
        load.wait_for(200)
    assert load.promised.failed == []
    check(load.promised, read_all(cluster.bootstrap, topic))
    no_epoch_has_two_deciders(postgres)
