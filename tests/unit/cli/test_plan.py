"""What `tailrace up` decides before and between its processes: options, plan, restarts, what it shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.waiting import HUNG_S
from tailrace.cli import options, plan
from tailrace.cli.data_dir import DataDir, UpRefused
from tailrace.cli.plan import Instance
from tailrace.cli.restarts import Restarts
from tailrace.cli.screen import Outlet, Screen
from tailrace.config import Config
from tailrace.net.address import Address


def parsed(*arguments: str) -> options.UpOptions:
    return options.parse(arguments, {"XDG_DATA_HOME": "/home/me/.local/share"})


def test_the_defaults_are_one_of_each_on_the_loopback() -> None:
    given = parsed()
    assert set(given.counts.values()) == {1}
    assert (given.listen, given.port, given.admin_port) == (("127.0.0.1", "::1"), 9092, 8080)
    assert given.data_dir == Path("/home/me/.local/share/tailrace")
    assert given.restart and not given.inline


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("log.example.com", "log.example.com", None),
        ("log.example.com:19092", "log.example.com", 19092),
        ("[fe80::1]:9092", "fe80::1", 9092),
        ("[fe80::1]", "fe80::1", None),
        ("fe80::1", "fe80::1", None),
    ],
)
def test_advertise_takes_a_host_with_or_without_a_port(text: str, host: str, port: int | None) -> None:
    given = parsed("--advertise", text)
    assert (given.advertised_host, given.advertised_port) == (host, port)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--set", "no-equals"), "expected key=value"),
        (("--brokers", "0"), "not a number from 1"),
        (("--port", "70000"), "not a port"),
        (("--port", "65535", "--brokers", "2"), "past port 65535"),
        (("--controllers", "2"), "need a shared database"),
        (("--data", "/a/b?c"), "a question mark, a control character or a space at its end"),
        (("--data", "/a/b "), "a question mark, a control character or a space at its end"),
        (("--data", "/a/b\nc"), "a question mark, a control character or a space at its end"),
        (("--advertise", "host:x"), "expected HOST or HOST:PORT"),
        (("--advertise", "bad host:::"), "'bad host:::' is not a host name or an IP address"),
        (("--advertise", "[::1]x"), "expected HOST or HOST:PORT"),
        (("--advertise", "host:"), "expected HOST or HOST:PORT"),
        (("--advertise", ""), "'' is not a host name or an IP address"),
        (("--advertise", "0.0.0.0:9092"), "clients need one"),
        (("--advertise", "host:65535", "--brokers", "2"), "past port 65535"),
        (("--listen", ""), "'' is not a host name or an IP address"),
        (("--listen", "127.0.0.1:9092"), "is not a host name or an IP address"),
        (("--admin-port", "9093", "--brokers", "2"), "is the port of node 1, too"),
        (("--data", ""), "expected a directory"),
        (("--secure", "--insecure"), "exclude each other"),
        (("--secure", "--set", "gateway.security.protocol=SSL"), "--secure chooses gateway.security.protocol"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_a_sentence(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        parsed(*arguments)
    assert refused.value.code == 2
    assert sentence in capsys.readouterr().err


def test_several_quota_services_need_no_shared_state() -> None:
    assert parsed("--quotas", "2").counts["quota"] == 2


def test_several_controllers_are_fine_on_postgresql() -> None:
    given = parsed("--controllers", "2", "--metadata-url", "postgresql://localhost/tailrace")
    assert given.counts["controller"] == 2
    assert given.settings["metadata.url"] == "postgresql://localhost/tailrace"


@pytest.mark.parametrize(
    ("brokers", "factor", "min_isr", "of_transactions"),
    [(1, None, None, None), (2, "2", None, "1"), (3, "3", "2", None), (5, "3", "2", None)],
)
def test_several_brokers_keep_several_copies(
    brokers: int, factor: str | None, min_isr: str | None, of_transactions: str | None
) -> None:
    chosen = parsed("--brokers", str(brokers)).settings
    assert (chosen.get("default.replication.factor"), chosen.get("min.insync.replicas")) == (factor, min_isr)
    assert chosen.get("transaction.state.log.min.isr") == of_transactions


def test_the_first_member_of_a_group_waits_a_moment_for_others_unless_the_user_sets_another_delay() -> None:
    key = "group.initial.rebalance.delay.ms"
    assert parsed().settings[key] == "50"
    assert [parsed("--set", f"{key}={delay}").settings[key] for delay in ("0", "3000")] == ["0", "3000"]
    environ = {"KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "3000", "XDG_DATA_HOME": "/x"}
    assert key not in options.parse((), environ).settings


@pytest.mark.parametrize("key", ["KAFKA_LISTENERS", "KAFKA_MIN_INSYNC_REPLICAS"])
def test_an_empty_variable_counts_as_none(key: str) -> None:
    arguments = ("--listen", "127.0.0.2", "--brokers", "3")
    chosen = options.parse(arguments, {key: "", "XDG_DATA_HOME": "/home/me/.local/share"})
    assert chosen == parsed(*arguments)
    assert chosen.listen == ("127.0.0.2",)


def test_what_the_user_says_of_copies_stands() -> None:
    told = parsed("--brokers", "3", "--set", "min.insync.replicas=1").settings
    assert (told["default.replication.factor"], told["min.insync.replicas"]) == ("3", "1")
    environ = {"KAFKA_DEFAULT_REPLICATION_FACTOR": "1", "XDG_DATA_HOME": "/x"}
    assert "default.replication.factor" not in options.parse(("--brokers", "3"), environ).settings


def test_controllers_start_first_and_gateways_last() -> None:
    started = plan.instances(parsed("--brokers", "2", "--gateways", "2"))
    assert started[0] == Instance("controller", 0)
    assert started[1:3] == [Instance("broker", 0), Instance("broker", 1)]
    assert [instance.name for instance in started[-2:]] == ["gateway-0", "gateway-1"]


def test_settings_name_the_controllers_and_set_has_the_last_word(tmp_path: Path) -> None:
    given = parsed("--data", str(tmp_path), "--set", "gateway.port=1", "--advertise", "log.example.com:5")
    chosen = plan.settings(given, tmp_path / "run", 9092, ("127.0.0.1",), Instance("broker", 3))
    assert chosen["node.id"] == "3"
    assert chosen["controller.quorum.bootstrap.servers"] == f"unix:{tmp_path}/run/controller-0.sock"
    assert chosen["gateway.port"] == "1"
    assert (chosen["gateway.advertised.host"], chosen["gateway.advertised.port"]) == ("log.example.com", "5")


def test_a_directory_with_a_comma_gives_a_list_of_one_controller(tmp_path: Path) -> None:
    given = parsed("--data", str(tmp_path / "a,b"))
    sockets = plan.socket_dir(given.data_dir, str(tmp_path))
    chosen = plan.settings(given, sockets, 9092, ("127.0.0.1",), Instance("broker", 0))
    config = Config.load("broker", None, {}, chosen)
    assert config.controller_quorum_bootstrap_servers == (f"unix:{sockets}/controller-0.sock",)
    assert config.data_dir == str(given.data_dir)


def test_sockets_of_a_long_directory_get_a_short_path_of_their_own() -> None:
    short, long = Path("/var/lib/tailrace"), Path("/" + "x" * 90)
    assert plan.socket_dir(short, "/run/user/0") == short / "run"
    elsewhere = plan.socket_dir(long, "/run/user/0")
    assert plan.socket_dir(Path("/var/a,b"), "/run/user/0").parent == Path("/run/user/0")
    assert elsewhere.parent == Path("/run/user/0")
    assert elsewhere != plan.socket_dir(Path("/" + "y" * 90), "/run/user/0")


def test_a_dead_child_comes_back_at_once_then_after_growing_pauses_of_at_most_ten_seconds() -> None:
    restarts = Restarts()
    restarts.ready(now_ms=0)
    pauses = [restarts.died(now_ms=1) for _ in range(12)]
    assert pauses[:4] == [0, 100, 200, 400]
    assert pauses[-1] == 10_000


def test_a_child_that_was_ready_for_long_comes_back_at_once_again() -> None:
    restarts = Restarts()
    for now_ms in (0, 20_000, 40_000):
        restarts.ready(now_ms)
        assert restarts.died(now_ms + 15_000) == 0


def test_the_fifth_death_of_a_never_ready_child_gives_up() -> None:
    restarts = Restarts()
    assert [restarts.died(now_ms) for now_ms in range(5)] == [0, 100, 200, 400, None]


def test_a_child_that_was_ready_once_is_never_given_up() -> None:
    restarts = Restarts()
    restarts.ready(0)
    assert None not in [restarts.died(now_ms) for now_ms in range(20)]


def test_an_outlet_nobody_reads_drops_lines_and_says_so() -> None:
    read, write = os.pipe()
    outlet = Outlet(write)
    line = b"x" * 999 + b"\n"
    for _ in range(2_000):
        outlet.write(line)
    assert outlet.is_waiting
    received = b""
    while outlet.is_waiting:
        received += os.read(read, 1 << 20)
        outlet.flush()
    outlet.write(b"after\n")
    received += os.read(read, 1 << 20)
    os.close(read)
    os.close(write)
    dropped = 2_000 - received.count(line)
    assert 0 < dropped < 1_500
    assert received.endswith(b"(%d lines were dropped: nobody read them)\nafter\n" % dropped)


def test_an_outlet_whose_reader_went_away_is_silent() -> None:
    read, write = os.pipe()
    outlet = Outlet(write)
    os.close(read)
    outlet.write(b"into the void\n")
    outlet.write(b"again\n")
    assert not outlet.is_waiting
    os.close(write)


def test_events_are_json_for_programs_and_sentences_for_people() -> None:
    read, write = os.pipe()
    for as_json in (True, False):
        screen = Screen(as_json=as_json, colour=False, prefix=True, out=write, err=write)
        screen.expect(["broker-0", "coordinator-0"])
        screen.child_event("broker-0", "is ready", event="ready", id=0)
    lines = os.read(read, 4096).decode().splitlines()
    os.close(read)
    os.close(write)
    assert json.loads(lines[0]) == {"event": "ready", "id": 0, "sentence": "broker-0 is ready"}
    assert lines[1] == "broker-0      | (broker-0 is ready)"


def test_the_preload_brings_the_protocol_without_the_clients_and_both_work_afterwards() -> None:
    code = (
        "import sys; from tailrace.cli.preload import preload; preload()\n"
        "assert 'kafka.protocol' in sys.modules and 'kafka.producer' not in sys.modules\n"
        "import kafka, kafka.protocol\n"
        "from tailrace.wire.messages import ProduceRequest\n"
        "from kafka.protocol.producer import ProduceRequest as theirs\n"
        "assert theirs is ProduceRequest and kafka.KafkaProducer"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=HUNG_S)


def test_a_log_directory_of_kafka_is_no_data_directory_and_stays_as_it_is(tmp_path: Path) -> None:
    kafka = tmp_path / "kafka"
    kafka.mkdir()
    (kafka / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=0\n")
    with pytest.raises(UpRefused, match="is a log directory of Apache Kafka, or of one broker"):
        DataDir(kafka, tmp_path / "sockets")
    assert [path.name for path in kafka.iterdir()] == ["meta.properties"]
    (kafka / "run").mkdir()  # whose log.dirs was set to it
    DataDir(kafka, tmp_path / "sockets").close()


RUNNING = [
    ("broker", {"internal": "unix:/run/b.sock", "client": "0.0.0.0:4000,[::1]:4000", "http": "127.0.0.1:4001"}),
    ("gateway", {"client": "0.0.0.0:9092", "admin": "0.0.0.0:8080", "http": "0.0.0.0:4002"}),
]


def test_what_other_machines_reach_without_a_login_is_named() -> None:
    hosts = ("0.0.0.0", "::1", "127.0.0.1")
    clients, admin = ([Address(host, port) for host in hosts] for port in (9092, 8080))
    assert list(plan.open_without_login(clients, admin, RUNNING, plan.Locks(clients=False, admin=False))) == [
        "0.0.0.0:9092 (Kafka clients)",
        "0.0.0.0:8080 (REST API and console)",
        "0.0.0.0:4000 (Kafka clients of a broker)",
        "0.0.0.0:4002 (metrics of a gateway)",
    ]
    assert list(plan.open_without_login(clients, admin, RUNNING, plan.Locks(clients=True, admin=False))) == [
        "0.0.0.0:8080 (REST API and console)",
        "0.0.0.0:4002 (metrics of a gateway)",
    ]
    assert list(plan.open_without_login(clients, admin, RUNNING, plan.Locks(clients=True, admin=True))) == [
        "0.0.0.0:4002 (metrics of a gateway)"
    ]


def test_nothing_is_open_on_the_loopback() -> None:
    clients = [Address("127.0.0.1", 9092), Address("::1", 9092), Address("localhost", 9092)]
    assert not list(plan.open_without_login(clients, clients, [], plan.Locks(clients=False, admin=False)))
    assert plan.bound(clients) == ""


def test_the_bound_addresses_are_shown_where_other_machines_reach_them() -> None:
    assert plan.bound([Address("0.0.0.0", 9092), Address("::1", 9092)]) == "bound to 0.0.0.0:9092, [::1]:9092"
