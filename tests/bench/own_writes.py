"""Whether a client reads its writes: how often what was answered is not in what is asked for right after it.

Each try writes on one connection and reads on another one, at once: a new topic and new partitions in Metadata, a
config of a topic and of a broker in DescribeConfigs, a quota in DescribeClientQuotas. Apache Kafka promises nothing
here: its brokers hear of a change after the controller has answered.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from bench.report import say
from support import kafka_peer
from support.kafka_peer import KafkaPeer
from support.raw import Raw, build
from tailrace.testing import Cluster

METADATA, CREATE_TOPICS, DESCRIBE_CONFIGS, CREATE_PARTITIONS = 3, 19, 32, 37
ALTER_CONFIGS, DESCRIBE_QUOTAS, ALTER_QUOTAS = 44, 48, 49
TOPIC, BROKER = 2, 4
CONFIGS = {TOPIC: "retention.ms", BROKER: "log.cleaner.backoff.ms"}


class Miss(NamedTuple):
    """One kind of write: how many of the tries did not show, and how long the write took, in milliseconds."""

    kind: str
    missing: int
    tries: int
    median_ms: float


Write = Callable[[Raw, int], Any]
Shows = Callable[[Raw, int], bool]


def topics(name: str, partitions: int) -> Any:
    row = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}
    return build(CREATE_TOPICS, topics=[row], timeout_ms=30_000, validate_only=False)


def partitions(connection: Raw, name: str) -> int:
    """How many Metadata tells; 0 for an unknown topic."""
    asked = build(METADATA, topics=[{"name": name, "topic_id": None}], allow_auto_topic_creation=False)
    return len(connection.ask(asked, 12).topics[0].partitions)


def create_topic(connection: Raw, number: int) -> Any:
    return connection.ask(topics(f"new-{number}", 1), 7).topics[0].error_code


def add_partitions(connection: Raw, number: int) -> Any:
    row = {"name": "growing", "count": number + 2, "assignments": None}
    request = build(CREATE_PARTITIONS, topics=[row], timeout_ms=30_000, validate_only=False)
    return connection.ask(request, 3).results[0].error_code


def configured(kind: int, name: str) -> tuple[Write, Shows]:
    """A config that counts up."""
    key = CONFIGS[kind]

    def write(connection: Raw, number: int) -> Any:
        config = {"name": key, "config_operation": 0, "value": str(100_000 + number)}
        resource = {"resource_type": kind, "resource_name": name, "configs": [config]}
        request = build(ALTER_CONFIGS, resources=[resource], validate_only=False)
        return connection.ask(request, 1).responses[0].error_code

    def shows(connection: Raw, number: int) -> bool:
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": [key]}
        request = build(DESCRIBE_CONFIGS, resources=[resource], include_synonyms=False, include_documentation=False)
        (config,) = connection.ask(request, 4).results[0].configs
        return bool(config.value == str(100_000 + number))

    return write, shows


def set_quota(connection: Raw, number: int) -> Any:
    entity = [{"entity_type": "client-id", "entity_name": "somebody"}]
    ops = [{"key": "producer_byte_rate", "value": 1e6 + number, "remove": False}]
    request = build(ALTER_QUOTAS, entries=[{"entity": entity, "ops": ops}], validate_only=False)
    return connection.ask(request, 1).entries[0].error_code


def quota_shows(connection: Raw, number: int) -> bool:
    component = {"entity_type": "client-id", "match_type": 0, "match": "somebody"}
    entries = connection.ask(build(DESCRIBE_QUOTAS, components=[component], strict=False), 1).entries
    return bool(entries) and entries[0].values[0].value == 1e6 + number


KINDS: dict[str, tuple[Write, Shows]] = {
    "a new topic": (create_topic, lambda connection, number: partitions(connection, f"new-{number}") == 1),
    "new partitions": (add_partitions, lambda connection, number: partitions(connection, "growing") == number + 2),
    "a topic's config": configured(TOPIC, "growing"),
    "a broker's config": configured(BROKER, "0"),
    "a quota": (set_quota, quota_shows),
}


def tried(bootstrap: str, tries: int) -> list[Miss]:
    """All kinds at one cluster."""
    host, _, port = bootstrap.rpartition(":")
    found = []
    with Raw(host, int(port)) as writing, Raw(host, int(port)) as reading:
        writing.ask(topics("growing", 1), 7)
        for kind, (write, shows) in KINDS.items():
            missing, times = 0, []
            for number in range(tries):
                began = time.perf_counter()
                code = write(writing, number)
                times.append((time.perf_counter() - began) * 1000)
                assert code == 0, f"{kind}: error {code}"
                missing += not shows(reading, number)
            found.append(Miss(kind, missing, tries, sorted(times)[tries // 2]))
    return found


def main(arguments: list[str]) -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser("bench.own_writes", description=__doc__)
    parser.add_argument("--tries", type=int, default=200, help="of each kind")
    parser.add_argument("--bootstrap", action="append", help="a running cluster instead of those that are started")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        clusters = {address: address for address in options.bootstrap or ()}
        if not clusters:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="own-writes-")))
            clusters["Tailrace"] = stack.enter_context(Cluster(data_dir=folder / "tailrace")).bootstrap
            if problem := kafka_peer.missing():
                say(f"without Apache Kafka: {problem}")
            else:
                peer = KafkaPeer(folder / "kafka", {})
                stack.callback(peer.stop)
                peer.start()
                clusters["Apache Kafka"] = peer.bootstrap
        say("| | written | not shown | median of the write |\n|---|---|--:|--:|")
        for name, bootstrap in clusters.items():
            for miss in tried(bootstrap, options.tries):
                say(f"| {name} | {miss.kind} | {miss.missing} of {miss.tries} | {miss.median_ms:.1f} ms |")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
