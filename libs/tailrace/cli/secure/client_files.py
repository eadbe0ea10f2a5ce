"""Ready files for clients in `DIR/clients`: each holds the password of the first user, and only its owner reads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tailrace.private_files import private_folder, write_private

FOLDER: Final = "clients"
PASSWORD: Final = "admin.password"
TRUST: Final = "ca.crt"
JAVA: Final = "client.properties"
KCAT: Final = "kcat.conf"
LIBRDKAFKA: Final = "librdkafka.properties"
KAFKA_PYTHON: Final = "kafka_python.py"
CURL: Final = "curl.conf"
USER: Final = "admin"
MECHANISM: Final = "SCRAM-SHA-512"


class ClientAccess(NamedTuple):
    """Where a client connects and as whom."""

    bootstrap: str
    admin: str
    trust: Path
    user: str
    password: str


def texts(access: ClientAccess) -> Mapping[str, str]:
    """The files of the folder by their names. A password is made of letters, digits, - and _."""
    return {
        JAVA: _java(access),
        KCAT: _librdkafka(access),
        LIBRDKAFKA: _librdkafka(access),
        KAFKA_PYTHON: _kafka_python(access),
        CURL: f'# curl -K THIS_FILE {access.admin}/v3/clusters\ncacert = "{access.trust}"\n'
        f'user = "{access.user}:{access.password}"\n',
    }


def write(folder: Path, access: ClientAccess, authority: bytes) -> None:
    """Replaces the files, as the address may be another one than before. Raises OSError."""
    private_folder(folder)
    write_private(folder / TRUST, authority)
    for name, text in texts(access).items():
        write_private(folder / name, text.encode())


def _java(access: ClientAccess) -> str:
    login = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return (
        "# Java, Kafka's own tools (--command-config) and `tailrace --command-config`.\n"
        f"bootstrap.servers={access.bootstrap}\n"
        "security.protocol=SASL_SSL\n"
        f"sasl.mechanism={MECHANISM}\n"
        f'sasl.jaas.config={login} required username="{access.user}" password="{access.password}";\n'
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={access.trust}\n"
    )


def _librdkafka(access: ClientAccess) -> str:
    return (
        "# kcat -F THIS_FILE, and the settings of every client on librdkafka, from version 2.6.1 on: older ones, as\n"
        "# that of Debian 12, send a nonce that Kafka refuses, too.\n"
        f"bootstrap.servers={access.bootstrap}\n"
        "security.protocol=SASL_SSL\n"
        f"sasl.mechanisms={MECHANISM}\n"
        f"sasl.username={access.user}\n"
        f"sasl.password={access.password}\n"
        f"ssl.ca.location={access.trust}\n"
    )


def _kafka_python(access: ClientAccess) -> str:
    return f'''"""kafka-python: `python THIS_FILE` lists the topics."""

SETTINGS = {{
    "bootstrap_servers": "{access.bootstrap}",
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "{MECHANISM}",
    "sasl_plain_username": "{access.user}",
    "sasl_plain_password": "{access.password}",
    "ssl_cafile": {str(access.trust)!r},
}}

if __name__ == "__main__":
    from kafka import KafkaConsumer

    print(*sorted(KafkaConsumer(**SETTINGS).topics()), sep="\\n")
'''
