"""The controller's metrics, in the words of Kafka's KafkaController and broker-metadata MBeans; read when scraped."""

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tailrace_controller.controller import Controller


class ControllerMetrics(Collector):
    """Reads the committed image at every scrape; nothing is counted while requests run but plain ints."""

    def __init__(self, registry: CollectorRegistry, controller: Controller) -> None:
        self._controller = controller
        registry.register(self)

    def collect(self) -> list[Metric]:
        """Reads everything now."""
        controller, image = self._controller, self._controller.committed
        partitions = [partition for topic in image.topics.values() for partition in topic.partitions]
        fenced = sum(broker.fenced for broker in image.brokers.values())
        offline = sum(partition.leader < 0 for partition in partitions)
        away = sum(partition.leader != partition.replicas[0] for partition in partitions)
        return [
            _gauge("active_controller_count", "1 where this controller is active", float(controller.active)),
            _gauge("controller_epoch", "Epoch of this controller's lease", controller.epoch),
            _gauge("active_broker_count", "Brokers that are not fenced", len(image.brokers) - fenced),
            _gauge("fenced_broker_count", "Brokers that are fenced", fenced),
            _gauge("global_topic_count", "Topics", len(image.topics)),
            _gauge("global_partition_count", "Partitions", len(partitions)),
            _gauge("offline_partitions_count", "Partitions without a leader", offline),
            _gauge("preferred_replica_imbalance_count", "Partitions not led by their first replica", away),
            _gauge("last_committed_record_offset", "Offset of the last committed metadata record", image.offset),
            _gauge("event_queue_size", "Metadata records that wait for the database", controller.pending_records),
            _counter("metadata_appends", "Transactions that appended to the metadata log", controller.appends),
            _counter("resignations", "Times that an append was in doubt", controller.resignations),
        ]

    def describe(self) -> list[Metric]:
        """Nothing ahead of time: values exist when scraped."""
        return []


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tailrace_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"tailrace_{name}", text, value=value)
