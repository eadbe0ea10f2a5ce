"""One face for every Python client, so that one script shows a capability with all of them."""

from support.clients.base import Client, Member, Record, Refused

__all__ = ["CLIENTS", "Client", "Member", "Record", "Refused", "connect"]

CLIENTS = ("kafka_python", "aiokafka", "confluent")


def client_class(name: str) -> type[Client]:
    """The adapter's class; its library is imported now."""
    if name == "kafka_python":
        from support.clients.kafka_python import KafkaPythonClient

        return KafkaPythonClient
    if name == "aiokafka":
        from support.clients.aiokafka import AioKafkaClient

        return AioKafkaClient
    from support.clients.confluent import ConfluentClient

    return ConfluentClient


def connect(name: str, bootstrap: str) -> Client:
    """A client of that library."""
    return client_class(name)(bootstrap)
