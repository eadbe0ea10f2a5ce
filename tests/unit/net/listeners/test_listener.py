"""Kafka's listeners and the short form of one: what is read, what is refused, and with which sentence."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.config import Config, ConfigError
from tailrace.net.listeners.listener import (
    ClientListener,
    admin_listener,
    listeners_of,
    mechanisms_of,
    overlap,
    without_listener,
)

MAP = "EXTERNAL:SASL_SSL,INNER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
SCRAM = {"sasl.enabled.mechanisms": "SCRAM-SHA-512"}


def config(listeners: str, told: str = "", protocols: str = MAP, more: dict[str, str] | None = None) -> Config:
    chosen = {"listeners": listeners, "listener.security.protocol.map": protocols, **SCRAM, **(more or {})}
    if told:
        chosen["advertised.listeners"] = told
    return Config.load("gateway", overrides=chosen)


def refusal(loaded: Config) -> str:
    with pytest.raises(ConfigError) as refused:
        listeners_of(loaded)
    assert str(refused.value).endswith(".")
    return str(refused.value)


def test_without_listeners_the_short_form_is_one() -> None:
    settings = {"gateway.listen": "10.0.0.1,::1", "gateway.port": "19092", "gateway.advertised.host": "kafka.example"}
    (one,) = listeners_of(Config.load("gateway", overrides=settings))
    assert one == ClientListener("PLAINTEXT", "PLAINTEXT", ("10.0.0.1", "::1"), 19092, "kafka.example")
    assert not (one.by_name or one.has_login or one.is_safe)


@pytest.mark.parametrize(
    ("short", "new"),
    [
        ({}, {"listeners": "PLAINTEXT://localhost:9092"}),
        ({"gateway.port": "19092"}, {"listeners": "PLAINTEXT://localhost:19092"}),
        ({"gateway.listen": "10.0.0.5"}, {"listeners": "PLAINTEXT://10.0.0.5:9092"}),
        ({"gateway.listen": "0.0.0.0,::"}, {"listeners": "PLAINTEXT://:9092"}),
        ({"gateway.security.protocol": "SASL_SSL"}, {"listeners": "SASL_SSL://localhost:9092"}),
        (
            {"gateway.advertised.host": "kafka.example.org", "gateway.advertised.port": "443"},
            {
                "listeners": "PLAINTEXT://localhost:9092",
                "advertised.listeners": "PLAINTEXT://kafka.example.org:443",
            },
        ),
    ],
)
def test_the_table_of_old_settings_says_what_is_so(short: dict[str, str], new: dict[str, str]) -> None:
    """docs/listeners.md, Short form."""
    assert listeners_of(Config.load("gateway", overrides=short | SCRAM)) == listeners_of(
        Config.load("gateway", overrides=new | SCRAM)
    )


def test_each_listener_has_its_own_protocol_addresses_and_mechanisms() -> None:
    loaded = config(
        "INNER://localhost:9092,external://:9192",
        "EXTERNAL://kafka.example:443",
        more={"sasl.enabled.mechanisms": "PLAIN", "listener.name.external.sasl.enabled.mechanisms": "SCRAM-SHA-256"},
    )
    inner, external = listeners_of(loaded)
    assert (inner.name, inner.security_protocol, inner.hosts, inner.port) == (
        "INNER",
        "PLAINTEXT",
        ("127.0.0.1", "::1"),
        9092,
    )
    assert (inner.advertised_host, inner.advertised_port, inner.mechanisms) == (None, None, ())
    assert (external.name, external.security_protocol, external.hosts) == ("EXTERNAL", "SASL_SSL", ("0.0.0.0", "::"))
    assert (external.advertised_host, external.advertised_port) == ("kafka.example", 443)
    assert external.mechanisms == ("SCRAM-SHA-256",) and external.is_safe
    assert mechanisms_of([inner, external]) == ("SCRAM-SHA-256",)


def test_keys_of_a_listener_stand_over_those_of_all() -> None:
    shared = {"ssl.keystore.location": "all.pem", "ssl.client.auth": "required"}
    own = {"listener.name.ssl.ssl.keystore.location": "own.pem", "listener.name.ssl.ssl.client.auth": "none"}
    ssl, external = listeners_of(config("SSL://:1,EXTERNAL://:2", more=shared | own))
    assert ssl.tls is not None and external.tls is not None
    assert (ssl.tls.keystore_location, ssl.tls.client_auth) == ("own.pem", "none")
    assert (external.tls.keystore_location, external.tls.client_auth) == ("all.pem", "required")
    assert (ssl.has_login, external.has_login) == (False, True)


def test_keys_of_one_listener_hold_in_the_short_form() -> None:
    settings = {
        "gateway.security.protocol": "SASL_SSL",
        "ssl.keystore.location": "all.pem",
        "listener.name.sasl_ssl.ssl.keystore.location": "own.pem",
        "listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/",
    }
    loaded = Config.load("gateway", overrides=settings)
    (one,) = listeners_of(loaded)
    assert one.tls is not None and one.tls.keystore_location == "own.pem"
    assert (one.mechanisms, one.principal_rules) == (("SCRAM-SHA-512",), "RULE:^CN=(.*?)$/$1/")
    assert without_listener(loaded) == ()


def test_keys_of_no_listener_are_named() -> None:
    own = {
        "listener.name.extrenal.ssl.keystore.location": "own.pem",
        "listener.name.external.ssl.keystore.location": "own.pem",
        "listener.name.controller.ssl.keystore.location": "own.pem",
    }
    assert without_listener(config("EXTERNAL://:9092", more=own)) == ("listener.name.extrenal.ssl.keystore.location",)


def test_they_come_from_the_environment_too() -> None:
    environ = {
        "KAFKA_LISTENERS": "EXTERNAL://:9092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "EXTERNAL:SSL",
        "KAFKA_LISTENER_NAME_EXTERNAL_SSL_KEY_PASSWORD": "hunter2",
    }
    loaded = Config.load("gateway", None, environ)
    (one,) = listeners_of(loaded)
    assert one.tls is not None and one.tls.key_password == "hunter2"
    assert loaded.warnings == () and "hunter2" not in f"{one!r} {loaded.of_listeners!r}"


def test_an_empty_variable_counts_as_none() -> None:
    (one,) = listeners_of(Config.load("gateway", None, {"KAFKA_LISTENERS": ""}, {"gateway.port": "19092"}))
    assert (one.name, one.port) == ("PLAINTEXT", 19092)


def test_listeners_of_controllers_are_left_out() -> None:
    loaded = config("PLAINTEXT://:9092,CONTROLLER://:9093")
    assert [one.name for one in listeners_of(loaded)] == ["PLAINTEXT"]
    assert "controller.listener.names" in refusal(config("CONTROLLER://:9093"))


# (listeners, advertised.listeners, map, Apache Kafka 4.4.0's own words)
REFUSED_BY_KAFKA = [
    ("PLAINTEXT://a:1,PLAINTEXT://b:2", "", MAP, "Each listener must have a different name"),
    (
        "PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:1",
        "",
        MAP,
        "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6",
    ),
    (
        "PLAINTEXT://127.0.0.1:1,SSL://10.0.0.5:1",
        "",
        MAP,
        "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6",
    ),
    ("OTHER://:1", "", MAP, "No security protocol defined for listener OTHER"),
    ("OTHER://:1", "", "OTHER:TLS", "Invalid security protocol `TLS` defined in listener.security.protocol.map"),
    ("OTHER://:1", "", "OTHER", "listener.security.protocol.map"),
    ("PLAINTEXT:127.0.0.1:1", "", MAP, "Unable to parse PLAINTEXT:127.0.0.1:1 to a broker endpoint"),
    ("PLAINTEXT://127.0.0.1", "", MAP, "Unable to parse PLAINTEXT://127.0.0.1 to a broker endpoint"),
    ("PLAINTEXT://127.0.0.1:x", "", MAP, "Unable to parse PLAINTEXT://127.0.0.1:x to a broker endpoint"),
    (
        "PLAINTEXT://:1",
        "PLAINTEXT://0.0.0.0:1",
        MAP,
        "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0",
    ),
    (
        "PLAINTEXT://:1",
        "PLAINTEXT://a:1,SSL://b:2",
        MAP,
        "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners",
    ),
    ("PLAINTEXT://:1", "PLAINTEXT://a:1,PLAINTEXT://b:2", MAP, "Each listener must have a different name"),
]


@pytest.mark.parametrize(("listeners", "told", "protocols", "words"), REFUSED_BY_KAFKA)
def test_what_kafka_refuses_is_refused_in_its_words(listeners: str, told: str, protocols: str, words: str) -> None:
    assert words in refusal(config(listeners, told, protocols))


@pytest.mark.parametrize(
    ("listeners", "told", "words"),
    [
        ("PLAINTEXT://:70000", "", "Unable to parse"),  # Kafka takes it, and fails to bind it
        ("PLAINTEXT://a b:1", "", "has no host name or IP address"),
        ("PLAINTEXT://:1", "PLAINTEXT://[::]:1", "nonroutable meta-address ::"),
        ("PLAINTEXT://:1", "PLAINTEXT://a:0", "cannot connect to port 0"),
        ("PLAINTEXT://:1", "PLAINTEXT://b-{nodeId}.example:1", "needs TLS"),
        ("SSL://:1", "SSL://b-{nodeId}-{nodeId}.example:1", "{nodeId} in it once"),
        ("SSL://:1", "SSL://b-{node}.example:1", "no host name or IP address"),
        ("EXTERNAL://:1", "", "The listener EXTERNAL (SASL_SSL) needs sasl.enabled.mechanisms"),
    ],
)
def test_what_cannot_work_is_refused_too(listeners: str, told: str, words: str) -> None:
    more = {"sasl.enabled.mechanisms": "GSSAPI"} if listeners.startswith("EXTERNAL") else {}
    assert words in refusal(config(listeners, told, more=more))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gateway.listen", "127.0.0.1"),
        ("gateway.port", "9092"),
        ("gateway.advertised.host", "a"),
        ("gateway.advertised.port", "1"),
        ("gateway.security.protocol", "SSL"),
        ("gateway.advertise", "brokers"),
    ],
)
def test_both_forms_at_once_are_refused(key: str, value: str) -> None:
    said = refusal(config("PLAINTEXT://:9092", more={key: value}))
    assert said.startswith(f"listeners and {key} cannot both be set")


@pytest.mark.parametrize(
    "settings",
    [{"advertised.listeners": "PLAINTEXT://a:1"}, {"listener.security.protocol.map": "A:SSL"}],
)
def test_what_belongs_to_listeners_needs_them(settings: dict[str, str]) -> None:
    assert "cannot be set without listeners" in refusal(Config.load("gateway", overrides=settings))


def test_one_port_is_of_ipv4_and_of_ipv6() -> None:
    both = listeners_of(config("PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9092"))
    assert [(one.hosts, one.port) for one in both] == [(("127.0.0.1",), 9092), (("::1",), 9092)]
    assert len(listeners_of(config("PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"))) == 2


def test_a_host_name_is_what_clients_are_told() -> None:
    by_name, by_address = listeners_of(config("SSL://kafka.example:1,PLAINTEXT://10.0.0.1:2"))
    assert (by_name.advertised_host, by_address.advertised_host) == ("kafka.example", None)


def test_the_admin_port_is_the_first_listeners() -> None:
    loaded = config("PLAINTEXT://localhost:9092,EXTERNAL://:9192")
    assert (admin_listener(loaded).hosts, admin_listener(loaded).security_protocol) == (
        ("127.0.0.1", "::1"),
        "PLAINTEXT",
    )
    own = {"listener.name.external.ssl.keystore.location": "own.pem", "admin.security.protocol": "SSL"}
    admin = admin_listener(config("EXTERNAL://:9192", more=own))
    assert admin.security_protocol == "SSL" and admin.tls is not None
    assert admin.tls.keystore_location == "own.pem"


def test_ports_of_nodes_must_not_meet() -> None:
    inner, external = listeners_of(config("INNER://:9092,EXTERNAL://:9094"))
    assert overlap([inner, external], 2) is None
    assert "both need port 9094" in (overlap([inner, external], 3) or "")
    assert overlap(listeners_of(config("INNER://127.0.0.1:9092,EXTERNAL://127.0.0.2:9093")), 2) is None
    assert overlap(listeners_of(config("INNER://0.0.0.0:9092,EXTERNAL://[::]:9092")), 2) is None
    by_name = listeners_of(config("INNER://:9092,EXTERNAL://:9091", "EXTERNAL://b-{nodeId}.example:443"))
    assert overlap(by_name, 50) is None
    assert by_name[1].by_name and by_name[1].tls is not None and by_name[1].tls.keeps_names
    assert by_name[1].advertised_names(2) == ["b-0.example", "b-1.example"]


@pytest.mark.parametrize("host", ["", "0.0.0.0", "127.0.0.1", "localhost", "kafka.example"])
def test_every_address_and_a_name_meet_one_address(host: str) -> None:
    for first, second in ((host, "127.0.0.1"), ("127.0.0.1", host)):
        both = listeners_of(config(f"INNER://{first}:9092,EXTERNAL://{second}:9093"))
        assert "both need port 9093" in (overlap(both, 2) or "")
    assert "9093" in (overlap(listeners_of(config("INNER://[::]:9092,EXTERNAL://[::1]:9093")), 2) or "")


NAMES = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789", min_size=1, max_size=8).filter(
    lambda name: name != "CONTROLLER"
)
HOSTS = st.sampled_from(["", "localhost", "10.1.2.3", "[2001:db8::1]", "kafka.example", "0.0.0.0"])
PROTOCOLS = st.sampled_from(["PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT"])


@given(
    st.lists(st.tuples(NAMES, HOSTS, st.integers(1, 65_535), PROTOCOLS), min_size=1, max_size=5),
)
def test_whatever_is_well_formed_is_read_as_it_stands(rows: list[tuple[str, str, int, str]]) -> None:
    names, ports = [row[0] for row in rows], sorted(row[2] for row in rows)
    loaded = (
        config(
            ",".join(f"{name}://{host}:{port}" for name, host, port, _ in rows),
            protocols=",".join(f"{name}:{protocol}" for name, _, _, protocol in rows),
        )
        if len(set(names)) == len(names)
        else None
    )
    if loaded is None or any(one == other for one, other in pairwise(ports)):
        return
    found = listeners_of(loaded)
    assert [(one.name, one.port, one.security_protocol) for one in found] == [(n, p, s) for n, _, p, s in rows]


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_with_a_sentence(text: str) -> None:
    try:
        loaded = Config.load("gateway", overrides={"listeners": text, "listener.security.protocol.map": text})
        assert listeners_of(loaded)
    except ConfigError as refused:
        assert str(refused)
