"""The image of an old version and that of this tree in one cluster: role by role to the new one under load, and back.

What docs/upgrades.md says, with containers: services meet over TCP alone. The way back is in the opposite order, so
that each service of either version runs beside controllers of its own version, and of the other one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from support import docker_engine
from support.compose import WITHOUT_HEALTH, ComposeCluster
from support.docker_engine import Unavailable, docker
from support.group_reader import GroupReader
from support.load import Load, check, read_all
from support.old_version import NoOldVersion
from tailrace.testing import admin

pytestmark = [
    pytest.mark.timeout(1800),
    # kafka-python leaves sockets of refused connects to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
NUMBERS = {"controller": (0, 1), "quota": (0, 1), "coordinator": (0, 1), "broker": (0, 1, 2), "gateway": (0, 1)}
ROLES = tuple(NUMBERS)  # the order of the page
PARTITIONS = 3
# Few records, so that the processors are for the services, which start 33 times.
LOAD = {"in_flight": 5, "linger_ms": 20, "request_timeout_ms": 5_000, "delivery_timeout_ms": 240_000}
MEANWHILE = 50  # records that are acknowledged after each role
PATIENCE_S = 120
HEALTH = "http://127.0.0.1:$TAILRACE_HEALTH_PORT/readyz"
READY = f"python -c \"import urllib.request as u; u.urlopen('{HEALTH}', timeout=5)\""


class TwoVersions(ComposeCluster):
    """The cluster of deploy/compose/cluster.yml, which begins in the old version."""

    def __init__(self) -> None:
        super().__init__(("deploy/compose/cluster.yml", "tests/support/images/versions.yml"), docker_engine.OLD)

    def replace(self, role: str, image: str) -> None:
        """Gives a role's services another image, one after the other, each when the one before is ready."""
        self.image = image
        for number in NUMBERS[role]:
            if role == "broker":
                command = [
                    sys.executable,
                    "-m",
                    "tailrace.cli",
                    "broker",
                    "may-stop",
                    str(number),
                    "-b",
                    self.bootstrap,
                ]
                subprocess.run([*command, "--timeout", str(PATIENCE_S)], check=True, capture_output=True)
            self.compose("up", "-d", "--no-deps", "--no-build", f"{role}-{number}")
            self.wait_until_well(f"{role}-{number}")
            assert docker("inspect", "-f", "{{.Config.Image}}", self.container(f"{role}-{number}")) == image

    def is_well(self, service: str) -> bool:
        """By its page: the old version may have no `tailrace health`."""
        if service in WITHOUT_HEALTH:
            return super().is_well(service)
        with suppress(Unavailable):
            docker("exec", self.container(service), "sh", "-c", READY)
            return True
        return False


@pytest.fixture
def cluster() -> Iterator[TwoVersions]:
    """All services in the old version."""
    try:
        docker_engine.build_old()
    except NoOldVersion as absent:
        pytest.skip(str(absent))
    with TwoVersions() as started:
        yield started


def test_role_by_role_to_the_new_image_and_back_loses_nothing(cluster: TwoVersions) -> None:
    admin.create_topic(cluster.bootstrap, "mixed", PARTITIONS, 3, {})
    cluster.wait_until_replicated("mixed")
    with GroupReader(cluster.bootstrap, "mixed", "through-the-upgrade") as group:
        with Load(cluster.bootstrap, "mixed", **LOAD) as load:
            load.wait_for(MEANWHILE, PATIENCE_S)
            for roles, image in ((ROLES, docker_engine.TAILRACE), (ROLES[::-1], docker_engine.OLD)):
                for role in roles:
                    cluster.replace(role, image)
                    load.wait_for(MEANWHILE, PATIENCE_S)
        assert load.promised.failed == []
        check(load.promised, read_all(cluster.bootstrap, "mixed"))
        group.wait_for(set(load.promised.acknowledged), PATIENCE_S)
