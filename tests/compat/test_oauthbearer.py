"""OAUTHBEARER of Java's clients, with a token in a file, as Kafka's own tools take it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import java_tools as tools
from support.java_tools import JavaTools, Shell
from support.plugin import leave_out
from support.tokens import Issuer, cluster_of
from tailrace.testing import Cluster

OAUTH = "org.apache.kafka.common.security.oauthbearer"


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer(one="RS256")


@pytest.fixture(scope="module")
def cluster(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_of(issuer, tmp_path_factory.mktemp("issuer")) as running:
        yield running


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the JVM may read a token from."""
    return tmp_path_factory.mktemp("client") / "token.jwt"


@pytest.fixture(scope="module")
def jvm(token: Path) -> Iterator[JavaTools]:
    """One that may read this file: Kafka's clients read none without that."""
    if absent := tools.missing():
        leave_out(absent)
    made = JavaTools(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={token.as_uri()}")
    yield made
    made.close()


def test_javas_clients_log_in_with_a_token(
    cluster: Cluster, jvm: JavaTools, issuer: Issuer, token: Path, tmp_path: Path
) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.jaas.config={OAUTH}.OAuthBearerLoginModule required;\n"
        f"sasl.login.callback.handler.class={OAUTH}.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}\n"
    )
    shell, by = Shell(jvm, cluster.bootstrap), ("--command-config", str(config))
    token.write_text(issuer.token())
    shell.out(tools.PRODUCER, *by, "--topic", "t", stdin="by a token\n")
    limits = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "40000")
    assert "by a token" in shell.out(tools.CONSUMER, *by, "--topic", "t", *limits)
    token.write_text(issuer.token(aud="another"))
    refused = jvm.run(tools.TOPICS, "--bootstrap-server", cluster.bootstrap, *by, "--list")
    assert refused.code and "invalid_token" in refused.out + refused.err
