"""The image of all ACLs, and its changes."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from support.access import random_acls
from tailrace.access.acls import PatternType
from tailrace.access.filters import AclFilter
from tailrace.access.image import AclImage
from tailrace.access.resources import ResourceType

RANDOM = st.randoms(use_true_random=False)


@given(RANDOM, st.integers(0, 40))
def test_a_changed_image_is_as_one_that_is_built_at_once(rng: Random, count: int) -> None:
    first = [random_acls.acl(rng) for _ in range(count)]
    before = AclImage().changed(first)
    added = [random_acls.acl(rng) for _ in range(count // 2)]
    removed = [*rng.sample(first, count // 3), random_acls.acl(rng)]
    after = before.changed(added, removed)
    assert set(before) == set(first)
    assert set(after) == set(first) - set(removed) | set(added)
    assert after == AclImage().changed(set(after))


def test_an_image_without_acls_is_empty_again() -> None:
    acls = {random_acls.acl(Random(seed)) for seed in range(50)}
    assert AclImage().changed(acls).changed(removed=acls) == AclImage()


@given(RANDOM)
def test_a_filter_names_what_it_matches(rng: Random) -> None:
    acls = {random_acls.acl(rng) for _ in range(20)}
    for resource_type in (ResourceType.ANY, ResourceType.TOPIC):
        for pattern_type in PatternType:
            wanted = AclFilter(resource_type, rng.choice((None, *random_acls.NAMES)), pattern_type)
            assert set(AclImage().changed(acls).matching(wanted)) == {acl for acl in acls if wanted.matches(acl)}


@given(RANDOM)
def test_an_image_has_the_acls_that_it_is_made_of(rng: Random) -> None:
    acls = {random_acls.acl(rng) for _ in range(20)}
    image = AclImage().changed(acls)
    assert all(acl in image for acl in acls)
    assert {acl for seed in range(20) if (acl := random_acls.acl(Random(seed))) in image} <= acls
