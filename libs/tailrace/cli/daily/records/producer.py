"""kafka-python's producer, for what `produce` sends."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import typer

from tailrace.cli.daily.connection import address, command_settings, say
from tailrace.cli.daily.refusals import sentence

_BOOTSTRAP_MS: Final = 10_000


@contextmanager
def kafka_producer(bootstrap: str | None, /, **options: Any) -> Iterator[Any]:
    """A producer of kafka-python; its errors end the command with one sentence and status 1."""
    import kafka
    from kafka.errors import KafkaError

    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what matters of its warnings ends as an error
    where = address(bootstrap)
    known: dict[str, object] = {"bootstrap_servers": where.split(","), "client_id": f"tailrace-cli-{os.getpid()}"}
    encrypted, login = command_settings()
    if encrypted is not None:
        known |= {"security_protocol": "SSL", "ssl_context": encrypted}
    if login is not None:
        known |= {
            "security_protocol": "SASL_PLAINTEXT" if encrypted is None else "SASL_SSL",
            "sasl_mechanism": login.mechanism,
            "sasl_plain_username": login.username,
            "sasl_plain_password": login.password,
        }
    try:
        opened = kafka.KafkaProducer(**known, bootstrap_timeout_ms=_BOOTSTRAP_MS, **options)
        try:
            yield opened
        finally:
            opened.close()
    except KafkaError as error:
        say(f"{where}: {in_words(error)}", err=True)
        raise typer.Exit(1) from None


def in_words(error: BaseException) -> str:
    """An error of kafka-python without its class: Kafka's name of the code where it has one, and what it says."""
    said = " ".join(part for part in error.args if isinstance(part, str))
    said = said if "Request(" not in said else ""  # some hold the whole request and answer
    code = getattr(error, "errno", None)
    text = sentence(code, said) if isinstance(code, int) else said
    return text or "it was refused, and nothing says why"
