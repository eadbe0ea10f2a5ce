"""Which node a client asks for by a host name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.net.identity import Identity
from tailrace.net.node_names import has_node_id, name_of, node_of

HOST = "Broker-{nodeId}.Kafka.example"


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("broker-0.kafka.example", 0),
        ("BROKER-17.KAFKA.EXAMPLE", 17),
        ("broker-3.kafka.example.", 3),
        ("broker-.kafka.example", None),
        ("broker-01.kafka.example", None),
        ("broker-+1.kafka.example", None),
        ("broker-²3.kafka.example", None),
        ("broker-99999999999.kafka.example", None),
        ("broker-1.kafka.example.org", None),
        ("bootstrap.kafka.example", None),
        ("kafka.example", None),
        ("", None),
        (None, None),
    ],
)
def test_a_name_says_a_node_or_none(name: str | None, node: int | None) -> None:
    assert node_of(HOST, name) == node


@given(st.integers(0, 2**31 - 1), st.sampled_from([HOST, "{nodeId}.x", "a{nodeId}", "n-{nodeId}"]))
def test_each_node_is_found_by_its_name(node_id: int, host: str) -> None:
    assert node_of(host, name_of(host, node_id)) == node_id
    assert node_of(host, name_of(host, node_id).upper()) == node_id


@given(st.text(max_size=40))
def test_any_name_is_some_node_or_none(name: str) -> None:
    node = node_of(HOST, name)
    assert node is None or name_of(HOST, node).lower() == name.lower().removesuffix(".")


def test_a_client_is_told_names_or_ports() -> None:
    assert not has_node_id("kafka.example")
    assert Identity(advertised_host="kafka.example", base_port=9092).endpoint_of(2) == ("kafka.example", 9094)
    assert Identity(advertised_host=HOST, base_port=443).endpoint_of(2) == ("Broker-2.Kafka.example", 443)
