"""A mark in every setting that is a secret, looked for in all that a cluster answers, serves, writes and logs."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from support.contents import contents
from support.ports import free_ports
from support.postgres import Postgres
from support.raw import Raw
from support.redis_server import RedisServer
from support.waiting import HUNG_S, until
from tailrace.access.scram import ScramMechanism, credential_of
from tailrace.config.config import environment_name
from tailrace.config.definition import Type
from tailrace.config.definitions import DEFINITIONS
from tailrace.kafka.resources import ConfigResource
from tailrace.net.address import Address
from tailrace.testing import Cluster
from tailrace.wire.messages import (
    AlterUserScramCredentialsRequest,
    DescribeConfigsRequest,
    DescribeUserScramCredentialsRequest,
    IncrementalAlterConfigsRequest,
)

MARK = "canary7f3a"
KEPT = "canary9c1b"  # of dynamic configs, which the metadata log and its copies keep, as in Apache Kafka
SALTED = hashlib.sha256(MARK.encode()).digest()  # of a user, whose keys the metadata log keeps
USER = credential_of(ScramMechanism.SCRAM_SHA_256, b"salt", SALTED, 4096)


def forms(key: bytes) -> list[bytes]:
    """The ways in which bytes are written."""
    return [key, key.hex().encode(), base64.b64encode(key), repr(key)[2:-1].encode()]


MARKS = re.compile(
    b"|".join(
        [
            f"{MARK}|{KEPT}".encode(),
            *(re.escape(form) for key in (SALTED, USER.stored_key, USER.server_key) for form in forms(key)),
        ]
    )
)
ROLES = ("controller", "broker", "coordinator", "quota", "gateway")
DYNAMIC = ("sasl.jaas.config", "listener.name.client.ssl.keystore.password")
PARAMETERS = {"broker_id": "0", "topic_name": "canary", "partition_id": "0", "name": "metadata.url", "config_type": "0"}


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Cluster]:
    secrets = {
        environment_name(definition): MARK for definition in DEFINITIONS.values() if definition.type is Type.PASSWORD
    }
    with RedisServer() as redis:
        redis.ask("ACL", "SETUSER", "canary", "on", f">{MARK}", "~*", "&*", "+@all")
        secrets["TAILRACE_METADATA_URL"] = postgres.url.replace("postgres@", f"postgres:{MARK}@")
        secrets["TAILRACE_QUOTA_URL"] = redis.url.replace("//", f"//canary:{MARK}@")
        urls = {environment_name(one) for one in DEFINITIONS.values() if one.type is Type.URL}
        assert urls <= set(secrets)
        with Cluster(
            port=free_ports(1),
            data_dir=tmp_path_factory.mktemp("secrets"),
            arguments=("--log-level", "debug", "--controllers", "2"),
            environ={**os.environ, **secrets},
        ) as started:
            started.create_topic("canary")
            set_dynamic_secrets(started)
            set_user(started)
            yield started


def marked(what: bytes | str) -> bool:
    return MARKS.search(what if isinstance(what, bytes) else what.encode()) is not None


def raw(cluster: Cluster) -> Raw:
    address = Address.parse(cluster.bootstrap)
    return Raw(address.host, address.port)


def set_dynamic_secrets(cluster: Cluster) -> None:
    """And one that is refused, whose answer must not repeat it."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    row = resource.AlterableConfig
    names = {"0": DYNAMIC, "": ("metadata.url", "ssl.key.password")}
    for broker, keys in names.items():
        configs = [row(name=name, config_operation=0, value=KEPT) for name in keys]
        one = resource(resource_type=ConfigResource.BROKER, resource_name=broker, configs=configs)
        with raw(cluster) as connection:
            answer = connection.ask(IncrementalAlterConfigsRequest(resources=[one], validate_only=False), 1)
        assert bool(answer.responses[0].error_code) == (not broker)
        assert not marked(str(answer))


def set_user(cluster: Cluster) -> None:
    """And what is told of it."""
    row = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
    user = row(name="canary", mechanism=1, iterations=4096, salt=USER.salt, salted_password=SALTED)
    with raw(cluster) as connection:
        answer = connection.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=[user]), 0)
        assert [(one.user, one.error_code) for one in answer.results] == [("canary", 0)]
        told = connection.ask(DescribeUserScramCredentialsRequest(users=None), 0)
    assert [one.user for one in told.results] == ["canary"]
    assert not marked(str(answer)) and not marked(str(told))


@pytest.mark.parametrize("name", ["0", ""])
def test_describe_configs_answers_null_for_a_secret(cluster: Cluster, name: str) -> None:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    one = resource(resource_type=ConfigResource.BROKER, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[one], include_synonyms=True, include_documentation=True)
    with raw(cluster) as connection:
        answer = connection.ask(request, 4)
    assert answer.results[0].error_code == 0
    assert not marked(str(answer))
    if name:
        rows = {row.name: row for row in answer.results[0].configs}
        for key in ("metadata.url", "quota.url", *DYNAMIC):
            assert (rows[key].value, rows[key].is_sensitive) == (None, True)


def page(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=HUNG_S) as answer:
            text: str = answer.read().decode(errors="replace")
            return text
    except urllib.error.HTTPError as refused:
        return refused.read().decode(errors="replace")


def test_no_page_and_no_rest_answer_holds_a_secret(cluster: Cluster) -> None:
    paths = json.loads(page(f"{cluster.admin}/openapi.json"))["paths"]
    (told,) = json.loads(page(f"{cluster.admin}/v3/clusters"))["data"]
    values = {**PARAMETERS, "cluster_id": told["cluster_id"]}
    asked = [
        re.sub(r"{(\w+)}", lambda found: values.get(found[1], "canary"), path)
        for path, operations in paths.items()
        if "get" in operations
    ]
    assert f"/v3/clusters/{told['cluster_id']}/brokers/0/configs" in asked
    for path in [*asked, "/", "/docs"]:
        assert not marked(page(cluster.admin + path)), path
    for role in ROLES:
        for path in ("/metrics", "/healthz", "/readyz"):
            assert not marked(page(f"http://{cluster.addresses(role)['http']}{path}")), (role, path)


def test_no_view_holds_a_secret(cluster: Cluster, postgres: Postgres) -> None:
    with psycopg.connect(postgres.url) as connection:
        views = connection.execute("SELECT viewname FROM pg_views WHERE schemaname = 'public'").fetchall()
        assert ("configs",) in views
        for (view,) in views:
            rows = connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(view))).fetchall()
            assert not marked(str(rows)), view
        held = connection.execute("SELECT name, value FROM configs WHERE resource_type = 'broker'").fetchall()
    assert {(name, None) for name in DYNAMIC} <= set(held)


def test_no_command_line_holds_a_secret(cluster: Cluster) -> None:
    lines = contents(Path("/proc").glob("[0-9]*/cmdline")).values()
    assert any(str(cluster.data_dir).encode() in line for line in lines)
    assert not [line for line in lines if marked(line)]


def test_no_file_and_no_log_holds_a_secret(cluster: Cluster) -> None:
    cache = cluster.data_dir / "metadata-cache"
    until(lambda: all((cache / f"{role}-0.image").exists() for role in ROLES[1:]), "the images on disk")
    files = contents(cluster.data_dir.rglob("*"))
    assert cluster.log_path in files and any(path.parent.name == "run" for path in files)
    images = {path: held for path, held in files.items() if path.parent == cache}
    assert {path.stat().st_mode & 0o777 for path in images if path.suffix == ".image"} == {0o600}
    assert not [path for path, held in images.items() if MARK.encode() in held]
    assert not [path for path, held in files.items() if path not in images and marked(held)]
