"""The controller's metrics, in the words of Kafka's KafkaController and broker-metadata MBeans; read when scraped."""

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tailrace_controller.role import ControllerRole
from tailrace_controller.sessions.watch import REFUSED, SILENT


class ControllerMetrics(Collector):
    """Reads the committed image at every scrape; nothing is counted while requests run but plain ints."""

    def __init__(self, registry: CollectorRegistry, role: ControllerRole) -> None:
        self._role = role
        registry.register(self)

    def collect(self) -> list[Metric]:
        """Reads everything now."""
        controller, watch = self._role.controller, self._role.watch
        image = controller.committed
        age_ms, refused = controller.lease_age_ms, float(bool(controller.refusal))
        age_seconds = age_ms if age_ms < 0 else age_ms / 1000
        partitions = [partition for topic in image.topics.values() for partition in topic.partitions]
        fenced = sum(broker.fenced for broker in image.brokers.values())
        offline = sum(partition.leader < 0 for partition in partitions)
        away = sum(partition.leader != partition.replicas[0] for partition in partitions)
        leaving = sum(broker.in_controlled_shutdown and not broker.fenced for broker in image.brokers.values())
        moving = sum(partition.is_reassigning for partition in partitions)
        fences = CounterMetricFamily("tailrace_broker_fences", "Brokers fenced, by what was found", labels=["why"])
        fences.add_metric(["refused"], watch.fenced[REFUSED])
        fences.add_metric(["silent"], watch.fenced[SILENT])
        return [
            fences,
            _gauge("active_controllers", "1 where this controller is active", float(controller.active)),
            _gauge("controller_epoch", "Epoch of this controller's lease", controller.epoch),
            _gauge("active_brokers", "Brokers that are not fenced", len(image.brokers) - fenced),
            _gauge("fenced_brokers", "Brokers that are fenced", fenced),
            _gauge("controlled_shutdown_brokers", "Brokers that are shutting down", leaving),
            _gauge("reassigning_partitions", "Partitions that move to other replicas", moving),
            _gauge("global_topics", "Topics", len(image.topics)),
            _gauge("global_partitions", "Partitions", len(partitions)),
            _gauge("offline_partitions", "Partitions without a leader", offline),
            _gauge("preferred_replica_imbalance", "Partitions not led by their first replica", away),
            _gauge(
                "controller_lease_age_seconds", "Since the database confirmed the lease; -1 on a standby", age_seconds
            ),
            _gauge("metadata_refused", "1 where the database is an older one than was seen", refused),
            _gauge("last_known_leader_epoch", "Highest controller epoch known here", controller.leader[1]),
            _gauge("last_committed_record_offset", "Offset of the last committed metadata record", image.offset),
            _gauge("event_queue_size", "Metadata records that wait for the database", controller.deferred.records),
            _counter("throttled_mutations", "Requests over a quota", self._role.mutations.throttled_count),
            _counter("metadata_appends", "Transactions that appended to the metadata log", controller.appends),
            _counter("resignations", "Times that this controller gave up being active", controller.resignations),
            _counter("leader_elections", "Partitions that got a leader", controller.counts.leader_elections),
            _counter(
                "unclean_leader_elections",
                "Partitions that got a leader that may lack records",
                controller.counts.unclean_leader_elections,
            ),
            _counter(
                "preferred_leader_elections",
                "Leaderships that went back to the first replica by themselves",
                self._role.periodic.preferred_elections,
            ),
            _counter("heartbeat_connection_breaks", "Heartbeat connections that broke", watch.connection_breaks),
            _counter("false_fences", "Brokers that went on after they had been fenced", watch.false_fences),
        ]

    def describe(self) -> list[Metric]:
        """Nothing ahead of time: values exist when scraped."""
        return []


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tailrace_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"tailrace_{name}", text, value=value)
