"""What a role may bind beyond the loopback."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tailrace.config import Config, ConfigError
from tailrace.runtime.insecure_listeners import check_listeners

ROLES = ("controller", "broker", "coordinator", "quota", "gateway")
OPEN = "0.0.0.0"


def refusal(settings: dict[str, str], roles: Sequence[str] = ROLES) -> str:
    try:
        check_listeners(Config.load("broker", None, {}, settings), roles)
    except ConfigError as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize("listen", ["127.0.0.1,::1", "localhost", "127.8.9.10"])
def test_the_loopback_needs_no_word(listen: str) -> None:
    assert refusal({"gateway.listen": listen, "health.listen": listen.partition(",")[0]}) == ""


@pytest.mark.parametrize("listen", [OPEN, "::", "10.0.0.1", "kafka.example.org", f"127.0.0.1,{OPEN}"])
def test_another_address_is_refused_with_what_can_be_done(listen: str) -> None:
    said = refusal({"gateway.listen": listen})
    assert "(Kafka clients)" in said and "(REST API and console)" in said and "--insecure" in said
    assert "--secure" in said


@pytest.mark.parametrize("settings", [{"gateway.listen": OPEN}, {"health.listen": OPEN}])
def test_the_word_opens_it(settings: dict[str, str]) -> None:
    assert refusal(settings)
    assert refusal({**settings, "allow.insecure.listeners": "true"}) == ""


def test_a_role_answers_for_what_it_binds() -> None:
    clients = {"gateway.listen": OPEN}
    assert [role for role in ROLES if refusal(clients, [role])] == ["gateway"]
    brokers = {**clients, "gateway.advertise": "brokers"}
    assert [role for role in ROLES if refusal(brokers, [role])] == ["broker", "gateway"]
    assert [role for role in ROLES if refusal({"health.listen": OPEN}, [role])] == list(ROLES)


def test_health_pages_can_be_opened_by_themselves() -> None:
    assert refusal({"health.listen": OPEN, "health.open": "true"}) == ""
    assert refusal({"gateway.listen": OPEN, "health.open": "true"})


@pytest.mark.parametrize(
    ("clients", "admin", "open_ports"),
    [
        ("SASL_SSL", "", ""),
        ("SASL_SSL", "PLAINTEXT", "REST"),
        ("SASL_SSL", "SASL_PLAINTEXT", "REST"),
        ("SASL_PLAINTEXT", "SASL_SSL", "Kafka"),
        ("SASL_PLAINTEXT", "", "Kafka REST"),
        ("PLAINTEXT", "SASL_SSL", "Kafka"),
        ("SSL", "", "Kafka REST"),
    ],
)
def test_a_port_is_safe_with_a_login_over_tls(clients: str, admin: str, open_ports: str) -> None:
    said = refusal(
        {"gateway.listen": OPEN, "gateway.security.protocol": clients, "sasl.enabled.mechanisms": "PLAIN"}
        | ({"admin.security.protocol": admin} if admin else {})
    )
    assert ("(Kafka clients)" in said) is ("Kafka" in open_ports)
    assert ("(REST API and console)" in said) is ("REST" in open_ports)


def test_each_listener_has_to_be_safe_beyond_the_loopback() -> None:
    protocols = {"listener.security.protocol.map": "IN:PLAINTEXT,OUT:SASL_SSL", "sasl.enabled.mechanisms": "PLAIN"}
    assert refusal({"listeners": "IN://localhost:1,OUT://:2", **protocols}) == ""
    said = refusal({"listeners": "IN://10.0.0.1:1,OUT://:2", **protocols})
    assert "IN://10.0.0.1 (Kafka clients); admin.port at 10.0.0.1 (REST API and console)" in said and "OUT" not in said
    said = refusal({"listeners": "OUT://:2,IN://10.0.0.1:1", **protocols})
    assert "IN://10.0.0.1 (Kafka clients):" in said and "REST" not in said


@pytest.mark.parametrize(("asked", "is_open"), [("required", False), ("requested", True), ("none", True)])
def test_certificates_that_clients_must_show_are_a_login(asked: str, is_open: bool) -> None:
    settings = {"gateway.security.protocol": "SSL", "ssl.client.auth": asked, "gateway.listen": OPEN}
    assert ("(Kafka clients)" in refusal(settings)) is is_open
