"""The pictures of docs/console.md, of a cluster with some topics and groups: python -m support.console_pictures."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from urllib.request import Request, urlopen

from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata, TopicPartition

from support.browser import WIDE, Window, open_browser
from support.commands import ROOT
from support.ports import free_ports
from support.waiting import HUNG_S
from tailrace.testing import Cluster

FOLDER = ROOT / "docs" / "images" / "console"
PLACES = {
    "overview": ("overview", "Every role that was asked answers"),
    "topics": ("topics", "invoices"),
    "topic": ("topics/orders", "Partitions"),
    "messages": ("messages/orders", "customer-"),
    "groups": ("groups", "billing"),
    "group": ("groups/billing", "It has no member"),
    "brokers": ("brokers", "answers"),
    "transactions": ("transactions", "No transaction is open."),
    "quotas": ("quotas", "client id reports"),
}
_TOPICS = {"orders": 6, "invoices": 3, "payments": 12, "customers": 1, "clicks": 24}


def fill(cluster: Cluster) -> None:
    """Topics with records, and a group that is late."""
    for name, partitions in _TOPICS.items():
        cluster.create_topic(name, partitions, replicas=2)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        for n in range(600):
            producer.send("orders", f'{{"order": {n}, "apples": {n % 7}}}'.encode(), key=f"customer-{n % 50}".encode())
            producer.send("payments", str(n).encode(), key=str(n).encode())
        producer.flush(HUNG_S)
    with urlopen(f"{cluster.admin}/v3/clusters", timeout=HUNG_S) as answer:
        root = json.load(answer)["data"][0]["metadata"]["self"]
    wanted = {"entity": [{"entity_type": "client-id", "entity_name": "reports"}], "name": "consumer_byte_rate"}
    body = json.dumps({"data": [{**wanted, "value": 2_000_000}]}).encode()
    urlopen(Request(f"{root}/quotas:alter", body, {"content-type": "application/json"}), timeout=HUNG_S).close()
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id="billing", enable_auto_commit=False) as reader:
        reader.commit({TopicPartition("orders", n): OffsetAndMetadata(10 * n, "", -1) for n in range(6)})


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(brokers=3, port=free_ports(3), data_dir=Path(folder) / "data") as cluster,
        open_browser() as browser,
    ):
        fill(cluster)
        window = Window(browser, cluster.admin.removeprefix("http://"), WIDE)
        for name, (place, text) in PLACES.items():
            page = window.go(place)
            window.verdict("good")
            page.get_by_text(text).first.wait_for()
            page.wait_for_timeout(8_000)  # three looks, for rates and lines
            page.screenshot(path=FOLDER / f"{name}.png")
            print(FOLDER / f"{name}.png")
        assert window.complaints == []


if __name__ == "__main__":
    main()
