"""`tailrace up` as a process tree, with tiny roles in place of the services."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.waiting import HUNG_S, until
from tailrace.runtime.health import ailing
from tailrace.runtime.run_files import RunFile, start_ticks
from tailrace.testing import Cluster, ClusterDied

FAKE = Path(__file__).parent.parent / "support" / "fake_up.py"
COMMAND = (sys.executable, str(FAKE))


def fake_cluster(data_dir: Path, *arguments: str, brokers: int = 1) -> Cluster:
    return Cluster(data_dir=data_dir, brokers=brokers, command=COMMAND, arguments=arguments)


@contextmanager
def launched(data_dir: Path, *arguments: str) -> Iterator[Cluster]:
    """A cluster that need not become ready."""
    cluster = fake_cluster(data_dir, *arguments)
    cluster.launch()
    try:
        yield cluster
    finally:
        cluster.close()


def second_up(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return up_that_ends(*(arguments or ("--data", str(cluster.data_dir))))


def up_that_ends(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=HUNG_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with fake_cluster(tmp_path) as started:
        yield started


def test_run_files_name_every_process_and_its_addresses(cluster: Cluster) -> None:
    run = cluster.data_dir / "run"
    for role in ("controller", "broker", "coordinator", "quota", "gateway"):
        pid = int((run / f"{role}-0.pid").read_text())
        described = json.loads((run / f"{role}-0.json").read_text())
        os.kill(pid, 0)
        assert described["pid"] == pid
        assert described["ready"] is True
        assert described["addresses"]["internal"].startswith("unix:")
        assert Path(f"/proc/{pid}/comm").read_text().strip() == f"{role}-0"
    assert json.loads((run / "up.json").read_text())["addresses"]["bootstrap"] == cluster.bootstrap


def test_a_dead_child_is_restarted_at_once_and_the_rest_keeps_running(cluster: Cluster) -> None:
    others = {role: cluster.process_id(role) for role in ("controller", "coordinator", "quota", "gateway")}
    before = cluster.process_id("broker")
    mark = cluster.kill("broker")
    ready = cluster.wait_for("ready", "broker", 0, since=mark, timeout_seconds=HUNG_S)
    assert ready["pid"] == cluster.process_id("broker") != before
    assert others == {role: cluster.process_id(role) for role in others}


def test_a_gateway_that_hangs_is_told_of_and_started_again(cluster: Cluster) -> None:
    mark = cluster.now
    cluster.pause("gateway")
    cluster.wait_for("silent", "gateway", since=mark)
    cluster.wait_for("hung", "gateway", since=mark)
    died = cluster.wait_for("died", "gateway", since=mark)
    assert died["status"] == -signal.SIGKILL
    cluster.wait_for("ready", "gateway", since=mark)


def test_a_gateway_that_goes_on_in_time_is_left_alone(cluster: Cluster) -> None:
    mark = cluster.now
    pid = cluster.process_id("gateway")
    cluster.pause("gateway")
    cluster.wait_for("silent", "gateway", since=mark)
    cluster.resume("gateway")
    cluster.wait_for("answers", "gateway", since=mark)
    assert cluster.process_id("gateway") == pid


def test_roles_stop_in_reverse_order_and_leave_no_run_file(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, brokers=2) as cluster:
        assert cluster.stop() == 0
        log = cluster.last_log()
    stopped = [line.split("|")[0].strip() for line in log.splitlines() if line.endswith("stopped)")] or [
        line.split("|")[0].strip() for line in log.splitlines() if "event=closed" in line
    ]
    roles = list(dict.fromkeys(name.split("-")[0] for name in stopped))
    assert roles == ["gateway", "quota", "coordinator", "broker", "controller"]
    assert sorted(path.name for path in (tmp_path / "run").glob("*.[pj]*")) == []


def test_a_child_that_never_becomes_ready_is_given_up_after_five_deaths(tmp_path: Path) -> None:
    (tmp_path / "quota-0.fails").touch()
    with launched(tmp_path) as cluster:
        given_up = cluster.wait_for("gave_up", "quota", 0, timeout_seconds=HUNG_S)
        assert given_up["status"] == 7
        assert cluster.stop() == 7
        assert cluster.last_log().count("cannot open") == 5 + 1  # each death, and once more as the last lines


def test_without_restart_a_dead_child_stays_dead(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, "--no-restart") as cluster:
        mark = cluster.kill("quota")
        assert "left dead" in cluster.wait_for("died", "quota", since=mark)["sentence"]
        assert not (tmp_path / "run" / "quota-0.pid").exists()
        assert ailing(tmp_path / "run", "/readyz") == ["quota-0 does not run"]
        os.kill(cluster.process_id("broker"), 0)


def test_what_tables_need_is_named_once_and_the_cluster_goes_on(tmp_path: Path) -> None:
    for role in ("broker", "gateway"):
        (tmp_path / f"{role}-0.asks").touch()
    with fake_cluster(tmp_path) as cluster:
        assert 'pip install "tailrace[tables]"' in cluster.wait_for("tables_need_extra", since=0)["sentence"]
        mark = cluster.kill("gateway")
        cluster.wait_for("ready", "gateway", since=mark)
        with pytest.raises(TimeoutError):
            cluster.wait_for("tables_need_extra", since=mark, timeout_seconds=0)
        assert not (tmp_path / "run" / "table-0.json").exists()
        os.kill(cluster.process_id("broker"), 0)


def test_nothing_is_announced_before_all_roles_are_ready(tmp_path: Path) -> None:
    (tmp_path / "coordinator-0.slow").touch()
    with launched(tmp_path) as cluster:
        for role in ("controller", "broker", "quota", "gateway"):
            cluster.wait_for("ready", role, timeout_seconds=HUNG_S)
        with pytest.raises(TimeoutError):
            cluster.wait_for("all_ready", timeout_seconds=0)


def test_a_second_up_on_the_same_directory_names_the_first(cluster: Cluster) -> None:
    second = second_up(cluster)
    assert second.returncode == 1
    assert f"pid {cluster.pid} since" in second.stderr
    assert cluster.bootstrap in second.stderr


def test_a_port_of_another_tailrace_is_refused_although_it_could_be_shared(cluster: Cluster, tmp_path: Path) -> None:
    port = cluster.bootstrap.rpartition(":")[2]
    second = second_up(cluster, "--data", str(tmp_path / "other"), "--port", port, "--admin-port", "0")
    assert second.returncode == 1
    assert f"Port {port} on 127.0.0.1 is taken by another Tailrace (pid {cluster.pid}:" in second.stderr
    assert "--port" in second.stderr


STRANGER = """
import ctypes, socket, sys
ctypes.CDLL(None).prctl(15, b"gateway-0")
with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket(socket.AF_UNIX) as other:
    other.bind(sys.argv[1])
    print(listening.getsockname()[1], flush=True)
    sys.stdin.read()
"""


def test_a_stranger_is_no_tailrace_whatever_it_is_called_and_wherever_it_lies(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STRANGER, str(tmp_path / "tailrace-gateway-0.sock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stranger:
        assert stranger.stdout
        port = int(stranger.stdout.readline())
        ended = RunFile("gateway", 0, stranger.pid, start_ticks(stranger.pid) - 1, 0)  # had the same pid once
        ended.write(tmp_path)
        refused = up_that_ends("--data", str(tmp_path / "other"), "--port", str(port))
        stranger.communicate()
    assert refused.returncode == 1
    assert f"Port {port} on 127.0.0.1 is taken by pid {stranger.pid} (" in refused.stderr
    assert "kill" not in refused.stderr


def test_a_port_of_a_stranger_is_refused_with_its_pid(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        refused = up_that_ends("--data", str(tmp_path), "--admin-port", str(port), "--port", "0")
    assert refused.returncode == 1
    assert f"Port {port} on 127.0.0.1 is taken by pid {os.getpid()}" in refused.stderr
    assert "--admin-port" in refused.stderr


def test_after_kill_9_of_everything_the_next_up_just_works(tmp_path: Path) -> None:
    with fake_cluster(tmp_path) as cluster:
        children = [cluster.process_id(role) for role in ("broker", "gateway")]
        cluster.pause("broker")  # a stopped process dies of SIGKILL only
        cluster.kill_all()
        cluster.start()
        assert cluster.process_id("broker") not in children
        for pid in children:
            until(lambda pid=pid: start_ticks(pid) == 0, f"the end of {pid}")  # type: ignore[misc]


def test_ctrl_c_stops_the_cluster_with_status_0(tmp_path: Path) -> None:
    with fake_cluster(tmp_path) as cluster:
        os.kill(cluster.pid, signal.SIGINT)
        cluster.wait_for("stopped", "controller", timeout_seconds=HUNG_S)
        assert cluster.stop() == 0


def test_brokers_of_an_earlier_start_that_hold_partitions_are_named_when_they_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "broker-2" / "orders-0").mkdir(parents=True)
    (tmp_path / "broker-3" / "run").mkdir(parents=True)  # drained: nothing of it is missed
    with fake_cluster(tmp_path) as cluster:
        named = cluster.wait_for("brokers_left_out", timeout_seconds=0)
    assert named["brokers"] == [2]
    assert "tailrace broker drain ID" in named["sentence"]


@pytest.mark.parametrize("mode", [(), ("--inline",)], ids=["processes", "inline"])
def test_settings_without_effect_are_named_once_for_the_whole_cluster(tmp_path: Path, mode: tuple[str, ...]) -> None:
    settings = ("--set", "num.io.threads=9", "--set", "num.network.threads=4")
    arguments = (*settings, *mode)
    environ = {key: value for key, value in os.environ.items() if key != "KAFKA_LIBS"}  # the tests' own
    with Cluster(data_dir=tmp_path, brokers=2, command=COMMAND, arguments=arguments, environ=environ) as cluster:
        named = cluster.wait_for("config_warning", timeout_seconds=0)
        assert named["sentence"] == "Set, but without effect in Tailrace yet: num.io.threads, num.network.threads."
        cluster.stop()
        assert "num.io.threads" not in cluster.last_log()


def test_an_unknown_setting_is_refused_in_one_sentence(cluster: Cluster, tmp_path: Path) -> None:
    refused = second_up(cluster, "--data", str(tmp_path / "other"), "--port", "0", "--set", "log.retention.hour=1")
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "log.retention.hours" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--listen", "127.0.0.1,bogus.invalid"), "bogus.invalid is no address of this machine"),
        (("--listen", "0.0.0.0"), "--insecure"),
        (("--metadata-url", "mysql://here/there"), "metadata.url=[hidden]"),
        (("--metadata-url", "postgresql://me:hunter2@here/there"), "TAILRACE_METADATA_URL"),
        (("--set", "internal.listen=here"), "internal.listen='here' is not an IP address"),
        (("--set", "controller.quorum.bootstrap.servers=a b:1"), "host:port or unix:/path"),
    ],
)
def test_an_address_that_is_none_is_refused_before_anything_starts(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    refused = up_that_ends("--data", str(tmp_path), "--port", "0", "--admin-port", "0", *arguments)
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert sentence in refused.stderr


def test_health_readiness_and_metrics_are_served_by_every_role(cluster: Cluster) -> None:
    for role in ("controller", "broker", "coordinator", "quota", "gateway"):
        base = f"http://{cluster.addresses(role)['http']}"
        for path in ("/healthz", "/readyz", "/metrics"):
            with urllib.request.urlopen(base + path, timeout=HUNG_S) as answer:
                assert answer.status == 200
                body = answer.read()
        assert b"process_resident_memory_bytes" in body


def test_a_role_that_is_not_ready_says_so(tmp_path: Path) -> None:
    (tmp_path / "quota-0.slow").touch()
    with launched(tmp_path) as cluster:
        http = cluster.wait_for("opened", "quota", timeout_seconds=HUNG_S)["addresses"]["http"]
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            urllib.request.urlopen(f"http://{http}/readyz", timeout=HUNG_S)
        refused.value.close()


def test_inline_runs_all_roles_in_one_process(tmp_path: Path) -> None:
    with fake_cluster(tmp_path, "--inline") as cluster:
        assert cluster.process_id("broker") == cluster.process_id("gateway") == cluster.pid
        os.kill(cluster.pid, signal.SIGTERM)
        with pytest.raises(ClusterDied):
            cluster.wait_for("stopped", timeout_seconds=HUNG_S)
        assert cluster.stop() == 0


@pytest.mark.parametrize("mode", [(), ("--inline",)], ids=["processes", "inline"])
def test_the_end_of_stdin_stops_all(tmp_path: Path, mode: tuple[str, ...]) -> None:
    command = [*COMMAND, "--port", "0", "--admin-port", "0", "--json", "--until-eof", "--data", str(tmp_path), *mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as up:
        assert up.stdin is not None and up.stdout is not None
        assert any(b"all_ready" in line for line in up.stdout)
        up.stdin.close()
        for _ in up.stdout:  # not before the pipe of stdout is empty, where it would be waited for
            pass
        assert up.wait(HUNG_S) == 0


@pytest.mark.parametrize("mode", [(), ("--inline",)], ids=["processes", "inline"])
def test_a_stdin_that_is_no_pipe_has_ended(tmp_path: Path, mode: tuple[str, ...]) -> None:
    arguments = ("--port", "0", "--admin-port", "0", "--until-eof", "--data", str(tmp_path), *mode)
    ended = subprocess.run(
        [*COMMAND, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HUNG_S, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
