"""OAUTHBEARER of every client, with tokens of an issuer whose keys are in a file; the same tokens over HTTP."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

from support.tokens import Issuer, cluster_of
from support.waiting import HUNG_S, until
from tailrace.testing import Cluster

TOPIC = "tokens"
COUNT = 5


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer(one="ES256", two="RS256")


@pytest.fixture(scope="module")
def cluster(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_of(issuer, tmp_path_factory.mktemp("issuer")) as running:
        yield running


class Provider(AbstractTokenProvider):
    """A token of the issuer each time."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer

    def token(self) -> str:
        return self._issuer.token()


def python(cluster: Cluster, issuer: Issuer) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Provider(issuer),
    }


def confluent(cluster: Cluster, issuer: Issuer, lifetime_s: float = 300.0, **claims: object) -> dict[str, Any]:
    def token(_: str) -> tuple[str, float]:
        end = time.time() + lifetime_s
        return issuer.token(kid="two", exp=int(end), **claims), end

    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": token,
    }


def test_kafka_python_and_librdkafka_write_and_read_in_groups(cluster: Cluster, issuer: Issuer) -> None:
    producer = KafkaProducer(**python(cluster, issuer))
    for number in range(COUNT):
        producer.send(TOPIC, b"%d" % number)
    producer.flush(HUNG_S)
    producer.close()
    consumer = Consumer({**confluent(cluster, issuer), "group.id": "l", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    read: list[bytes] = []
    while len(read) < COUNT:
        message = consumer.poll(HUNG_S)
        assert message is not None, f"{read} within {HUNG_S} s"
        if message.error() is None:  # a topic that was just created may be unknown for a moment
            read.append(message.value() or b"")
    consumer.close()
    limits = {"group_id": "p", "auto_offset_reset": "earliest", "consumer_timeout_ms": HUNG_S * 1000}
    other = KafkaConsumer(TOPIC, **limits, **python(cluster, issuer))
    again = [next(other).value for _ in range(COUNT)]
    other.close()
    assert sorted(read) == sorted(again) == sorted(b"%d" % number for number in range(COUNT))


def renewed(cluster: Cluster) -> float:
    """Repeated logins at both processes that may hold a client's socket."""
    found = 0.0
    for role in ("gateway", "broker"):
        with urlopen(f"http://{cluster.addresses(role)['http']}/metrics", timeout=HUNG_S) as answer:
            text = answer.read().decode()
        pattern = r"^tailrace_successful_sasl_reauthentication_total\{.*\} (\S+)$"
        found += sum(map(float, re.findall(pattern, text, re.MULTILINE)))
    return found


def test_a_client_brings_a_new_token_before_the_old_one_ends(cluster: Cluster, issuer: Issuer) -> None:
    """librdkafka asks its callback at 80 % of a token's life."""
    failed: list[object] = []
    producer = Producer(confluent(cluster, issuer, lifetime_s=4.0))

    def sent_and_renewed() -> bool:
        producer.produce("renewed", b"x", on_delivery=lambda error, _: failed.append(error))
        assert producer.flush(HUNG_S) == 0
        return renewed(cluster) > before

    before = renewed(cluster)
    until(sent_and_renewed, "a renewed session")
    assert set(failed) == {None}


@pytest.mark.parametrize("claims", [{"aud": "another"}, {"iss": "https://other.example"}])
def test_a_token_for_others_gets_nothing(cluster: Cluster, issuer: Issuer, claims: dict[str, Any]) -> None:
    said: list[str] = []
    settings = {**confluent(cluster, issuer, **claims), "error_cb": lambda error: said.append(error.name())}
    admin = AdminClient(settings)
    until(lambda: admin.poll(0) or said, "a refusal")
    assert said[0] == "_AUTHENTICATION"


def test_the_admin_port_takes_the_same_tokens(cluster: Cluster, issuer: Issuer) -> None:
    def status(token: str) -> int:
        asked = Request(f"{cluster.admin}/v3/clusters", headers={"authorization": f"Bearer {token}"})
        try:
            with urlopen(asked, timeout=HUNG_S) as answer:
                return int(answer.status)
        except HTTPError as refused:
            with refused:
                return refused.code

    assert [status(issuer.token()), status(issuer.token(aud="another")), status("x")] == [200, 401, 401]
