"""The topics that Kafka keeps for itself (org.apache.kafka.common.internals.Topic)."""

from typing import Final

GROUP_METADATA_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
SHARE_GROUP_STATE_TOPIC: Final = "__share_group_state"
# The metadata log: no topic that a client sees, and none of INTERNAL_TOPICS.
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"

# Only coordinators write them; Metadata marks them is_internal.
INTERNAL_TOPICS: Final = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})
