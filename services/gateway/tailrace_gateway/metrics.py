"""The gateway's metrics, in Kafka's MBean words; counted as plain ints by the connections, read when scraped."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tailrace.net.large import Large
from tailrace.net.quotas.throttled_connections import ThrottledConnections
from tailrace_gateway.answering import AnsweringGateway
from tailrace_gateway.cluster_state import BrokerStatus, ClusterState, state_of

MOST_SOFTWARE: Final = 100  # names and versions of clients that the page has


class GatewayMetrics(Collector):
    """Bytes in and out, connections, and how old the image is."""

    def __init__(
        self,
        registry: CollectorRegistry,
        gateway: AnsweringGateway,
        min_insync_replicas: int,
        throttled: ThrottledConnections,
    ) -> None:
        self._gateway = gateway
        self._throttled = throttled
        self._min_insync_replicas = min_insync_replicas
        self._state: ClusterState | None = None
        self._large = Large()  # not the gateway's: a page does not wait behind what clients ask for
        registry.register(self)

    async def prepare(self) -> None:
        """Counts partitions in a thread, for the collect that follows."""
        image = self._gateway.image
        self._state = await self._large.run(partial(state_of, image, self._min_insync_replicas))

    def collect(self) -> list[Metric]:
        """Reads everything now."""
        gateway = self._gateway
        came, went = gateway.relayed_bytes
        for connection in gateway.connections:
            came += connection.received_bytes
            went += connection.sent_bytes
        return [
            CounterMetricFamily("tailrace_bytes_in", "Bytes from clients.", value=came),
            CounterMetricFamily("tailrace_bytes_out", "Bytes to clients.", value=went),
            CounterMetricFamily(
                "tailrace_connection_close", "Connections that ended.", value=gateway.closed_connections
            ),
            CounterMetricFamily(
                "tailrace_throttle_time_seconds",
                "Throttle time given to clients (KIP-219).",
                value=gateway.throttled_ms / 1000,
            ),
            CounterMetricFamily(
                "tailrace_throttled_connections",
                "Connections refused by a connection_creation_rate (KIP-612).",
                value=self._throttled.refused_count,
            ),
            CounterMetricFamily(
                "tailrace_connections_refused_per_ip",
                "Connections above max.connections.per.ip of their address.",
                value=self._throttled.per_ip.refused_count,
            ),
            *self._of_handshakes(),
            GaugeMetricFamily("tailrace_connections", "Open connections.", value=len(gateway.connections)),
            self._of_software(),
            GaugeMetricFamily(
                "tailrace_handed_over_connections",
                "Of them, those whose socket is their broker's.",
                value=sum(connection.handed_over for connection in gateway.connections),
            ),
            CounterMetricFamily("tailrace_handovers", "Connections handed to brokers.", value=gateway.handover.count),
            GaugeMetricFamily("tailrace_metadata_offset", "Last applied metadata offset.", value=gateway.image.offset),
            GaugeMetricFamily(
                "tailrace_metadata_stale", "1 while no controller answers.", value=float(gateway.follower.stale)
            ),
            *self._of_the_cluster(),
        ]

    def _of_software(self) -> Metric:
        """KIP-511: what clients call themselves. They choose the names, so that the page has to bound them."""
        family = GaugeMetricFamily(
            "tailrace_client_software_connections",
            "Open connections by what the client calls itself (KIP-511).",
            labels=["name", "version"],
        )
        sessions = (connection.session for connection in self._gateway.connections)
        found = Counter((session.software_name, session.software_version) for session in sessions)
        named = found.most_common(MOST_SOFTWARE)
        for labels, count in named:
            family.add_metric([*labels], count)
        if others := found.total() - sum(count for _, count in named):
            family.add_metric(["others", "others"], others)
        return family

    def _of_handshakes(self) -> list[Metric]:
        """Of TLS."""
        counts = [handshakes.counts for handshakes in self._gateway.handshakes]
        done, failed = (sum(each) for each in zip(*counts, strict=True)) if counts else (0, 0)
        return [
            CounterMetricFamily("tailrace_tls_handshakes", "TLS handshakes of clients that succeeded.", value=done),
            CounterMetricFamily("tailrace_failed_tls_handshakes", "TLS handshakes that were refused.", value=failed),
        ]

    def _of_the_cluster(self) -> list[Metric]:
        """Kafka's gauges of brokers and partitions, as the image has them; every gateway says the same."""
        state, self._state = self._state or state_of(self._gateway.image, self._min_insync_replicas), None
        live = sum(row.status is not BrokerStatus.FENCED for row in state.brokers)
        led = GaugeMetricFamily("tailrace_broker_leaders", "Partitions that a broker leads.", labels=["broker"])
        for row in state.brokers:
            led.add_metric([str(row.broker_id)], row.leaders)
        gauges = (
            ("controller_epoch", "Epoch of the newest controller seen.", self._gateway.follower.controller_epoch),
            ("active_brokers", "Brokers that are not fenced.", live),
            ("fenced_brokers", "Registered brokers that are fenced.", len(state.brokers) - live),
            ("global_topics", "Topics.", state.topics),
            ("global_partitions", "Partitions.", state.partitions),
            ("offline_partitions", "Partitions without a leader.", len(state.offline)),
            ("under_replicated_partitions", "Partitions with replicas out of sync.", len(state.under_replicated)),
            ("under_min_isr_partitions", "Partitions that refuse acks=all.", len(state.under_min_isr)),
            ("at_min_isr_partitions", "Partitions that can lose no more in-sync replica.", len(state.at_min_isr)),
            ("reassigning_partitions", "Partitions that are being reassigned.", len(state.reassigning)),
            ("preferred_replica_imbalance", "Partitions not led by their first.", len(state.not_preferred)),
            ("elr_partitions", "Partitions with eligible leader replicas (KIP-966).", state.with_elr),
        )
        return [*(GaugeMetricFamily(f"tailrace_{name}", about, value=value) for name, about, value in gauges), led]

    def describe(self) -> list[Metric]:
        """Nothing ahead of time."""
        return []
