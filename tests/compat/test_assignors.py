"""The assignors beside Apache Kafka's own classes: no step of random histories is less equal, or moves more."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from support import java_tools
from support.assignors.histories import Shape, history, with_assigned
from support.assignors.kafka import KafkaAssignors
from support.assignors.measures import complaints, loads, moved
from support.plugin import leave_out
from tailrace_coordinator.groups.assignors.assignors import ASSIGNORS
from tailrace_coordinator.groups.assignors.spec import GroupAssignment, GroupSpec

HISTORIES, STEPS = 40, 10


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAssignors]:
    if absent := java_tools.missing():
        leave_out(absent)
    with KafkaAssignors() as running:
        yield running


def steps(kafka: KafkaAssignors, name: str, *, alike: bool) -> Iterator[tuple[GroupSpec, GroupAssignment]]:
    """Groups with an assignment of Kafka's, and what Kafka makes of it."""
    for seed in range(HISTORIES):
        rng = Random(seed)
        shape = Shape(rng.randint(2, 12), rng.randint(1, 6), rng.choice((4, 12)), alike)
        assigned: GroupAssignment = {}
        for _, group in history(rng, shape, STEPS):
            spec = with_assigned(group, assigned)
            assigned, _ = kafka.assign(name, spec)
            yield spec, assigned


@pytest.mark.parametrize("name", ASSIGNORS)
def test_members_with_one_subscription_lose_no_more_than_in_kafka(kafka: KafkaAssignors, name: str) -> None:
    for spec, kafkas in steps(kafka, name, alike=True):
        ours = ASSIGNORS[name](spec)
        assert complaints(spec, ours) == complaints(spec, kafkas) == []
        assert moved(spec, ours) <= moved(spec, kafkas)
        assert loads(spec, ours)[0] - loads(spec, ours)[-1] <= loads(spec, kafkas)[0] - loads(spec, kafkas)[-1]


def test_uniform_numbers_of_different_subscriptions_are_never_less_equal_than_in_kafka(kafka: KafkaAssignors) -> None:
    for spec, kafkas in steps(kafka, "uniform", alike=False):
        ours = ASSIGNORS["uniform"](spec)
        assert complaints(spec, ours) == complaints(spec, kafkas) == []
        assert loads(spec, ours) <= loads(spec, kafkas)  # the largest number first: the most loaded member decides
