"""kafka-python's whole integration suite, written for Apache Kafka, on one broker of each.

It wants a broker of its own: node 0, four partitions for topics that come into being, group sessions of three seconds.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import kafka_python_suite
from support.kafka_peer import KafkaPeer
from support.targets import SETTINGS, WAYS, Target
from tailrace.testing import Cluster

FILES = ("test_admin_integration.py", "test_consumer_integration.py", "test_producer_integration.py")
LEFT_OUT = {  # with the reason
    "test_ssl_integration.py": "starts a broker of its own; `tests/integration/test_tls.py` has kafka-python over TLS",
    "test_sasl_integration.py": "starts a broker of its own, with users in its file",
    "test_admin_integration.py::test_create_describe_delete_acls": "there are no ACLs; Kafka has none by itself",
}
AGAIN = {  # what fails of these files is run once more: a fault of the library, with any server
    "test_consumer_integration.py": "a consumer that subscribes while its first Metadata request is under way never "
    "asks for its topics, and reads nothing for five minutes (kafka-python 3.0.12)",
}
ITS_SETTINGS = SETTINGS | {"num.partitions": "4"}
TESTS = 54
SKIPPED = ("test_consumer_integration.py::test_kafka_consumer_offsets_for_time_old",)  # for brokers before 0.10.1


@pytest.fixture
def bootstrap(target: Target, tmp_path: Path) -> Iterator[str]:
    cluster: KafkaPeer | Cluster
    if target.is_kafka:
        cluster = KafkaPeer(tmp_path, ITS_SETTINGS)
    else:
        cluster = Cluster(brokers=1, data_dir=tmp_path, settings=ITS_SETTINGS | WAYS.get(target.name, {}))
    try:
        cluster.start()
        yield cluster.bootstrap
    finally:
        cluster.stop()


@pytest.mark.capability("kafka-python's own integration tests")
@pytest.mark.by("kafka_python")
@pytest.mark.only("tailrace1", "kafka")
@pytest.mark.timeout(2 * kafka_python_suite.TIMEOUT_S)
def test_the_suite_passes(bootstrap: str) -> None:
    outcome = kafka_python_suite.run(bootstrap, FILES, tuple(LEFT_OUT), tuple(AGAIN))
    assert not outcome.failed
    assert (len(outcome.passed), outcome.skipped) == (TESTS, SKIPPED)
