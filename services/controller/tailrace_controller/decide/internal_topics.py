"""Internal topics: how many replicas each should have. They are made with what the cluster has and grow with it."""

from tailrace.config import Config
from tailrace.metadata.image import MetadataImage
from tailrace_controller.decide import elections

OFFSETS, TRANSACTIONS, SHARE_STATE = "__consumer_offsets", "__transaction_state", "__share_group_state"


def wanted_replication_factor(image: MetadataImage, name: str, config: Config) -> int:
    """Returns the configured replication factor of an internal topic, but not more than there are live brokers."""
    wanted = {
        OFFSETS: config.offsets_topic_replication_factor,
        TRANSACTIONS: config.transaction_state_log_replication_factor,
        SHARE_STATE: config.share_coordinator_state_topic_replication_factor,
    }[name]
    live = sum(elections.may_lead(image, broker_id) for broker_id in image.brokers)
    return max(1, min(wanted, live))
