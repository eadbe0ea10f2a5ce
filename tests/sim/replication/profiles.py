"""Which faults a world has, and which promise holds under them.

The promise of acks=all with min.insync.replicas m (Kafka's, with eligible leader replicas, KIP-966): no acknowledged
record is lost while no more than m - 1 brokers at a time have ended in a way that may have cost them what was not on
the disk. "At a time" lasts from the end until the broker is back in the ISR of all its partitions. Two members that
lose their page caches at once are outside with m = 2. So is a power loss while another member is killed (kill -9): the
controller cannot tell the two apart, both leave ISR and ELR, and the last known leader may be the one that lost its
tail. Where only processes die and no machine does, any number may, all at once too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """Weights of the faults; `unclean_budget` says that unclean ends are limited as the promise has it."""

    about: str
    weights: Mapping[str, float]
    unclean_budget: bool = False
    unclean_elections: bool = False
    deletes: bool = False  # records, and the segments that hold no others; one idempotent batch in flight
    weather: float = 0.5  # the share of worlds with a bad network
    idempotent: bool = False  # with producers as librdkafka is one, over several partitions


NETWORK = {"cut": 3.0, "isolate": 1.5, "storm": 1.5, "cut_controller": 1.0}
STOPS = {"pause": 2.0, "shutdown": 1.0}
CONTROLLER = {"controller_kill": 0.7, "controller_zombie": 1.0, "controller_database": 0.5}
OTHER = {"clock": 0.5, "disk_error": 0.7, "elect": 0.5, "reassign": 0.5}

PROFILES: dict[str, Profile] = {
    "clean": Profile(
        "kill -9 of any broker at any time, also of all; page caches survive",
        {"kill": 3.0, "torn_kill": 1.0, "kill_all": 0.3, **NETWORK, **STOPS, **CONTROLLER, **OTHER},
    ),
    "power": Profile(
        "kill -9 and power loss, at most min.insync.replicas - 1 at a time",
        {"kill": 1.0, "torn_kill": 1.0, "power": 4.0, **NETWORK, **STOPS, **CONTROLLER, **OTHER},
        unclean_budget=True,
    ),
    "network": Profile(
        "links cut one way and both ways, loss, delay, duplicates, stopped processes; nobody dies",
        {**NETWORK, "cut": 6.0, "pause": 3.0, **CONTROLLER, "clock": 1.0},
        weather=0.9,
    ),
    "unclean": Profile(
        "everything at once, unclean elections allowed: acknowledged records may be lost, histories may not fork",
        {"kill": 2.0, "torn_kill": 1.0, "power": 3.0, "kill_all": 0.5, "power_all": 0.5,
         **NETWORK, **STOPS, **CONTROLLER, **OTHER},
        unclean_elections=True,
    ),
    "delete": Profile(
        "power, and DeleteRecords up to anywhere in what all producers have acknowledgements for",
        {"kill": 1.0, "torn_kill": 1.0, "power": 3.0, "delete_records": 8.0, "reassign": 2.0,
         **NETWORK, **STOPS, **CONTROLLER, "clock": 0.5, "disk_error": 0.7, "elect": 0.5},
        unclean_budget=True,
        deletes=True,
    ),
    "idempotent": Profile(
        "network, and leaders that are elected while batches are in flight: librdkafka's producers, several partitions",
        {**NETWORK, "mute": 6.0, "elect": 9.0, "pause": 1.0, "kill": 0.7, "controller_zombie": 0.5, "disk_error": 0.5},
        weather=0.2,
        idempotent=True,
    ),
}  # fmt: skip
