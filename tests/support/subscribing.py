"""A consumer of kafka-python that subscribes once its first Metadata request is over.

kafka-python 3.0.12 forgets topics that are subscribed while a request is under way (ClusterMetadata.update_metadata
takes its answer for an answer about them). KafkaConsumer(topic) begins with such a request, so on a busy machine it may
read nothing for metadata.max.age.ms, five minutes, from Apache Kafka as well.

It also loses an assignment. Where its topics have other partitions than before, it joins again; if poll() times out
before SyncGroup is answered, the next poll() asks need_rejoin() first (join_group_async), which is false by then, and
never takes up what the answer said. So a group's poll() has more time than a rebalance takes: REBALANCE_MS.
"""

from typing import Any

from kafka import KafkaConsumer

REBALANCE_MS = 10_000


def subscribed(topic: str, **options: Any) -> KafkaConsumer:
    """As KafkaConsumer(topic, **options)."""
    consumer = KafkaConsumer(**options)
    consumer.topics()  # returns behind the request that is under way
    consumer.subscribe([topic])
    return consumer
