"""What one controller knows of how far anybody has seen the log, and what follows from that for its database."""

from tailrace.metadata.image import MetadataImage
from tailrace_controller.election import acceptance
from tailrace_controller.election.acceptance import Seen
from tailrace_controller.election.seen_file import SeenFile
from tailrace_controller.metadata_log.lease_row import Lease


class SeenOffsets:
    """`highest` only grows; `refusal` is the sentence for the operator while the database ends below it, else ""."""

    def __init__(self, file: SeenFile | None) -> None:
        self.highest = Seen()
        self.refusal = ""
        self._file = file
        self._noted: dict[str, Seen] = {}

    def read_notes(self) -> None:
        """Takes note of what the controllers of this data directory have noted so far."""
        self._noted = self._file.read_all() if self._file is not None else {}

    def learn(self, seen: Seen) -> None:
        """Somebody knows the log up to here."""
        self.highest = self.highest.and_(seen)

    def learn_notes_of(self, cluster_id: str) -> None:
        """As learn, of what read_notes has found of this cluster."""
        self.learn(self._noted.get(cluster_id, Seen()))

    def learn_of(self, lease: Lease) -> None:
        """As learn, of what the lease row says."""
        self.learn(Seen(lease.seen_offset, lease.seen_epoch))

    def judge(self, lease: Lease) -> None:
        """Whether this database may be decided on; see `refusal`."""
        self.learn_of(lease)
        self.refusal = acceptance.refusal(lease, self.highest) if acceptance.contradicts(lease, self.highest) else ""

    def is_accepted(self, lease: Lease) -> bool:
        """Whether an operator has given up what this database lacks; if not, `refusal` says what that is."""
        self.learn_of(lease)
        if acceptance.is_accepted(lease, self.highest):
            return True
        self.refusal = acceptance.refusal(lease, self.highest)
        return False

    def unwritten(self, lease: Lease) -> tuple[int, int]:
        """Offset and epoch that the lease row does not say yet; -1, -1 where it says all."""
        known = (lease.seen_offset, lease.seen_epoch)
        seen = (max(self.highest.offset, lease.next_offset), self.highest.epoch)
        return (-1, -1) if known == seen else seen

    def note(self, image: MetadataImage, epoch: int, now_ms: float, *, at_once: bool = False) -> None:
        """Notes for later starts how far this controller has read."""
        if self._file is not None:
            self._file.note(image.cluster_id, Seen(image.offset, epoch), now_ms, at_once=at_once)
