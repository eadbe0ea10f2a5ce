"""The image: what is in it, how it starts and stops, and that two builds of one tree have the same layers."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from support import docker_engine
from support.commands import ROOT
from support.containers import running
from support.docker_engine import docker
from tailrace import __version__

# Nothing outside the volume can be written, nothing is left of root.
HARDENED = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges")
ROLES = ("broker", "controller", "coordinator", "gateway", "quota")
pytestmark = pytest.mark.timeout(600)


def inspected(image: str = docker_engine.TAILRACE) -> dict[str, Any]:
    (found,) = json.loads(docker("image", "inspect", image))
    return dict(found)


def test_its_labels_say_what_it_is() -> None:
    labels = inspected()["Config"]["Labels"]
    assert labels["org.opencontainers.image.title"] == "Tailrace"
    assert labels["org.opencontainers.image.version"] == __version__
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert re.fullmatch("[0-9a-f]{40}|unknown", labels["org.opencontainers.image.revision"])


def test_a_cluster_on_a_read_only_root_is_healthy_and_stops_with_0() -> None:
    with running(options=HARDENED) as container:
        container.healthy()
        assert container.run("id", "-u") == "10001"
        assert container.run("tailrace", "health", "--ready") == ""
        container.run("tailrace", "topic", "create", "orders")
        assert "orders" in container.run("tailrace", "topic", "list")
        assert container.stop() == 0


@pytest.mark.parametrize("role", ROLES)
def test_a_role_alone_starts_without_the_others_and_stops_with_0(role: str) -> None:
    chosen = ("-e", "TAILRACE_ALLOW_INSECURE_LISTENERS=true")
    with running(role, options=(*HARDENED, *chosen)) as container:
        if role == "controller":  # the others wait for one
            container.healthy()
        docker("exec", container.name, "sh", "-c", f"until test -e run/{role}-0.json; do sleep 0.1; done")
        assert container.stop() == 0


@pytest.fixture
def ipv6_network() -> Iterator[str]:
    """A network with both families: an engine before Docker 28 has none of IPv6 alone."""
    name = f"tailrace-test-{secrets.token_hex(4)}"
    prefix = f"fd00:{secrets.randbelow(1 << 16):x}:{secrets.randbelow(1 << 16):x}::/64"
    docker("network", "create", "--ipv6", "--subnet", prefix, name)
    yield name
    docker_engine.remove_network(name)


def test_clients_reach_it_by_its_ipv6_address(ipv6_network: str) -> None:
    network = ("--network", ipv6_network)
    with running(options=network) as container:
        container.healthy()
        address = docker(
            "inspect", "-f", "{{range .NetworkSettings.Networks}}{{.GlobalIPv6Address}}{{end}}", container.name
        )
        command = ("run", "--rm", "-i", *network, docker_engine.TAILRACE)
        bootstrap = ("-b", f"[{address}]:9092")
        docker(*command, "produce", "orders", *bootstrap, typed="apple\n")
        assert docker(*command, "consume", "orders", "--count", "1", "--from-beginning", *bootstrap) == "apple"
        read = f"import urllib.request as u; print(u.urlopen('http://[{address}]:8080/v3/clusters').status)"
        assert container.run("/opt/tailrace/bin/python", "-c", read) == "200"


def test_a_stop_in_the_first_moment_is_heard() -> None:
    """Process 1 has no default action for SIGTERM: a role that is still being imported would miss it."""
    with running("broker") as container:
        assert container.stop() != 137


def test_a_setting_that_is_wrong_ends_it_with_a_sentence() -> None:
    with running("gateway", options=("-e", "TAILRACE_GATEWAY_PORT=x")) as container:
        assert docker("wait", container.name) == "2"
        assert "gateway.port" in container.log()


def test_it_has_no_compiler_no_tests_and_no_installer() -> None:
    with running("broker") as container:
        found = container.run("sh", "-c", "ls /opt/tailrace/bin; ls /opt/tailrace/lib/python3*/site-packages")
    assert {"tailrace", "psycopg", "redis", "uvloop"} <= set(found.split())
    assert not {"pip", "uv", "pytest", "tailrace_spark", "hatchling"} & set(found.split())


def test_two_builds_of_one_tree_have_the_same_layers() -> None:
    again = f"{docker_engine.TAILRACE}-again"
    docker_engine.build_tailrace(again, "--no-cache")
    try:
        assert inspected(again)["RootFS"]["Layers"] == inspected()["RootFS"]["Layers"]
    finally:
        docker("rmi", again)


def test_buildkit_makes_the_same_of_it() -> None:
    program = docker_engine.buildkit()
    if program is None:
        pytest.skip("no docker command here builds with BuildKit")
    image = f"{docker_engine.TAILRACE}-buildkit"
    docker_engine.build_with_buildkit(program, image)
    try:
        ours, theirs = inspected()["Config"], inspected(image)["Config"]
        same = [
            "Cmd",
            "Entrypoint",
            "Env",
            "ExposedPorts",
            "Healthcheck",
            "Labels",
            "StopSignal",
            "User",
            "Volumes",
            "WorkingDir",
        ]
        assert {key: theirs[key] for key in same} == {key: ours[key] for key in same}
        with running(options=HARDENED, image=image) as container:
            container.healthy()
            assert container.stop() == 0
    finally:
        docker("rmi", image)


def test_the_build_sees_only_what_it_copies() -> None:
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    lines = (ROOT / "deploy" / "image" / "Dockerfile").read_text().splitlines()
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY") and "--from" not in line]
    assert {name for names in copied for name in names} == sent
