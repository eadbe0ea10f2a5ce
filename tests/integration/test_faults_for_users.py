"""The faults of docs/testing.md, as a person's test meets them: a client sees each, and afterwards all is as before."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaStorageError, KafkaTimeoutError

from support.ports import free_ports
from support.subscribing import subscribed
from support.waiting import until
from tailrace.testing import Cluster
from tailrace.testing.network import Network

SESSION = {"broker.session.timeout.ms": "6000", "broker.heartbeat.interval.ms": "500"}
ANSWER_S = 120


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Started and closed from a coroutine."""
    with asyncio.Runner() as runner:
        started = Cluster(brokers=2, proxied=True, settings=SESSION)
        runner.run(started.__aenter__())
        yield started
        runner.run(started.__aexit__(None, None, None))


@pytest.fixture
def producer(cluster: Cluster) -> Iterator[Any]:
    with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", delivery_timeout_ms=120_000)) as made:
        yield made


@pytest.fixture
def orders(cluster: Cluster) -> Iterator[str]:
    cluster.create_topic("orders")
    yield "orders"
    cluster.delete_topic("orders")
    cluster.delete_topic("orders")  # gone already


def test_a_leader_is_moved_and_a_broker_that_has_no_replica_is_refused(cluster: Cluster, orders: str) -> None:
    other = 1 - cluster.leader(orders)
    cluster.move_leader(orders, 0, other)
    assert cluster.leader(orders) == other
    with pytest.raises(ValueError, match="broker 7 has no replica of orders-0"):
        cluster.move_leader(orders, 0, 7)


def test_what_does_not_exist_is_refused_with_what_does(cluster: Cluster, orders: str) -> None:
    with pytest.raises(ValueError, match="no brokr-0 runs, only broker-0, broker-1, controller-0"):
        cluster.kill("brokr")
    with pytest.raises(ValueError, match="no broker-7 runs, only broker-0"):
        cluster.pause("broker", 7)
    with pytest.raises(ValueError, match=r"there is no topic 'ordres', only .*orders"):
        cluster.leader("ordres")
    with pytest.raises(ValueError, match="orders has no partition 5, only 0 to 0"):
        cluster.move_leader(orders, 5, 0)
    with pytest.raises(ValueError, match=r"no metric log_dir_presure without labels, only .*log_dir_pressure"):
        cluster.metric("log_dir_presure", "broker")
    with pytest.raises(ValueError, match="there is no node 2, only 0 to 1"), cluster.network.cut(2):
        pass


def test_a_full_disk_refuses_producers_until_it_has_room(cluster: Cluster, orders: str, producer: Any) -> None:
    leader = cluster.leader(orders)
    with (
        cluster.disk_full(leader),
        closing(KafkaProducer(bootstrap_servers=cluster.bootstrap, retries=0)) as impatient,
        pytest.raises((KafkaStorageError, KafkaTimeoutError)),
    ):
        impatient.send(orders, b"refused").get(ANSWER_S)
    producer.send(orders, b"taken").get(ANSWER_S)
    assert cluster.metric("log_dir_pressure", "broker", leader) == 0


def test_a_broker_whose_session_expires_loses_its_leaders_and_comes_back(
    cluster: Cluster, orders: str, producer: Any
) -> None:
    first = cluster.leader(orders)
    cluster.expire_session(first)
    assert cluster.leader(orders) == 1 - first
    producer.send(orders, b"taken").get(ANSWER_S)


def test_members_that_are_expired_join_again(cluster: Cluster, orders: str, producer: Any) -> None:
    assert cluster.expire_members("nobody") == 0
    with closing(
        subscribed(orders, bootstrap_servers=cluster.bootstrap, group_id="billing", auto_offset_reset="earliest")
    ) as consumer:
        producer.send(orders, b"first").get(ANSWER_S)
        read = until(lambda: consumer.poll(500) or None, "the first record", ANSWER_S)
        assert [record.value for records in read.values() for record in records] == [b"first"]
        assert cluster.expire_members("billing") == 1
        producer.send(orders, b"second").get(ANSWER_S)
        until(lambda: consumer.poll(500) or None, "the second record", ANSWER_S)


def test_a_paused_broker_answers_when_it_goes_on(cluster: Cluster, orders: str, producer: Any) -> None:
    producer.send(orders, b"v").get(ANSWER_S)  # so that the next one needs no metadata, for which it would block
    with cluster.paused("gateway"), cluster.paused("broker", 0), cluster.paused("broker", 1):  # one has the socket
        waiting = producer.send(orders, b"v")
        assert not waiting.is_done
    waiting.get(ANSWER_S)


# -- the network, without a cluster ------------------------------------------------------------------------------------


class Echo:
    """A server that sends back what it gets; each connection in a thread."""

    def __init__(self, port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                end, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(end,), daemon=True).start()

    def _echo(self, end: socket.socket) -> None:
        with end:
            try:
                while data := end.recv(65_536):
                    end.sendall(data)
            except OSError:
                return

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def network() -> Iterator[Network]:
    port = free_ports(2)
    with closing(Echo(port)), closing(Echo(port + 1)), closing(Network(2)) as between:
        between.lead_to("127.0.0.1", port)
        yield between


@pytest.fixture
def connect(network: Network) -> Iterator[Callable[..., socket.socket]]:
    opened: list[socket.socket] = []

    def make(node: int = 0) -> socket.socket:
        opened.append(socket.create_connection(("127.0.0.1", network.port + node), timeout=ANSWER_S))
        return opened[-1]

    yield make
    for end in opened:
        end.close()


def test_a_cut_breaks_connections_to_its_node_alone(network: Network, connect: Callable[..., socket.socket]) -> None:
    first, second = connect(0), connect(1)
    assert (echoed(first, b"a"), echoed(second, b"b")) == (b"a", b"b")
    with network.cut(0):
        assert is_broken(first)
        assert is_broken(connect(0))
        assert echoed(second, b"c") == b"c"
    assert echoed(connect(0), b"d") == b"d"


def test_what_was_sent_into_a_network_that_hangs_arrives_afterwards(
    network: Network, connect: Callable[..., socket.socket]
) -> None:
    end = connect()
    assert echoed(end, b"a") == b"a"
    with network.hang():
        end.sendall(b"b")
        end.setblocking(False)
        with pytest.raises(BlockingIOError):
            end.recv(1)
    end.settimeout(ANSWER_S)
    assert end.recv(1) == b"b"


def test_a_slow_network_carries_everything_and_ends_with_its_block(
    network: Network, connect: Callable[..., socket.socket]
) -> None:
    end = connect()
    with network.slow(delay_ms=1, bytes_per_second=10_000_000):
        assert echoed(end, bytes(100_000)) == bytes(100_000)
    assert echoed(end, bytes(100_000)) == bytes(100_000)


def test_an_end_of_one_side_reaches_the_other(network: Network, connect: Callable[..., socket.socket]) -> None:
    end = connect()
    end.sendall(b"a")
    end.shutdown(socket.SHUT_WR)
    assert [end.recv(10), end.recv(10)] == [b"a", b""]


def echoed(end: socket.socket, data: bytes) -> bytes:
    """What comes back."""
    threading.Thread(target=end.sendall, args=(data,), daemon=True).start()
    found = b""
    while len(found) < len(data):
        found += end.recv(65_536)
    return found


def is_broken(end: socket.socket) -> bool:
    """Waits for its end."""
    try:
        return end.recv(1) == b""
    except ConnectionError:
        return True


def test_a_paused_broker_stands_still_from_then_on(cluster: Cluster) -> None:
    process = cluster.process_id("broker")
    with cluster.paused("broker"):
        tasks = [task / "stat" for task in Path(f"/proc/{process}/task").iterdir()]
        assert {task.read_text().rpartition(")")[2].split()[0] for task in tasks} == {"T"}
