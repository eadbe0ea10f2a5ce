"""What a topic's configs say about its replicas: min.insync.replicas and whether unclean elections are allowed."""

from collections.abc import Mapping

from tailrace.config import Config
from tailrace.kafka.resources import ALL_BROKERS, ConfigResource
from tailrace.metadata.image import MetadataImage, TopicImage

MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"


class MinIsrs:
    """The min ISR of each topic, worked out once: its own, else the cluster's default, but not more than its replicas.

    A topic whose replication factor is below its min.insync.replicas counts as in sync when all replicas are (KIP-966).
    """

    def __init__(self, image: MetadataImage, config: Config) -> None:
        self._image = image
        self._default = int(_default(image).get(MIN_INSYNC_REPLICAS, config.min_insync_replicas))
        self._known: dict[str, int] = {}

    def of(self, topic: TopicImage) -> int:
        """Returns the number of in-sync replicas from which on acks=all is taken."""
        found = self._known.get(topic.name)
        if found is None:
            wanted = int(self._image.config(ConfigResource.TOPIC, topic.name).get(MIN_INSYNC_REPLICAS, self._default))
            found = min(wanted, len(topic.partitions[0].replicas)) if topic.partitions else wanted
            self._known[topic.name] = found
        return found


def allows_unclean_election(image: MetadataImage, name: str, config: Config) -> bool:
    """Says whether a topic would rather have a leader that lacks records than none."""
    text = image.config(ConfigResource.TOPIC, name).get(UNCLEAN_LEADER_ELECTION)
    text = text or _default(image).get(UNCLEAN_LEADER_ELECTION)
    return config.unclean_leader_election_enable if text is None else text.strip().lower() == "true"


def _default(image: MetadataImage) -> Mapping[str, str]:
    return image.config(ConfigResource.BROKER, ALL_BROKERS)
