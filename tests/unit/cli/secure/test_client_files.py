"""The files for clients, as the clients read them."""

from __future__ import annotations

import ast
import stat
from pathlib import Path

import pytest

from tailrace.cli.secure.client_files import ClientAccess, texts, write
from tailrace.config import properties

PASSWORD = "abc-DEF_123"
ACCESS = ClientAccess(
    "kafka.example.org:9092", "https://kafka.example.org:8080", Path("/data/ca.crt"), "admin", PASSWORD
)


def pairs(name: str) -> dict[str, str]:
    return {key: value for key, (value, _) in properties.parse(texts(ACCESS)[name]).items()}


def test_java_reads_properties() -> None:
    found = pairs("client.properties")
    assert found.pop("sasl.jaas.config").endswith(f'username="admin" password="{PASSWORD}";')
    assert found == {
        "bootstrap.servers": "kafka.example.org:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/data/ca.crt",
    }


@pytest.mark.parametrize("name", ["kcat.conf", "librdkafka.properties"])
def test_librdkafka_has_names_of_its_own(name: str) -> None:
    assert pairs(name) == {
        "bootstrap.servers": "kafka.example.org:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "admin",
        "sasl.password": PASSWORD,
        "ssl.ca.location": "/data/ca.crt",
    }


def test_python_has_a_dictionary() -> None:
    tree = ast.parse(texts(ACCESS)["kafka_python.py"])
    settings = next(ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign))
    assert settings["sasl_plain_password"] == PASSWORD and settings["ssl_cafile"] == "/data/ca.crt"


def test_its_owner_alone_may_open_them(tmp_path: Path) -> None:
    folder = tmp_path / "clients"
    write(folder, ACCESS, b"certificate")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name for path in folder.iterdir()} == {*texts(ACCESS), "ca.crt"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
