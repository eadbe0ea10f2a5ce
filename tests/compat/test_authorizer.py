"""The authorizer and the filters of ACLs beside Apache Kafka's StandardAuthorizer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, replace
from random import Random

import pytest

from support import java_tools
from support.access import random_acls
from support.access.kafka import KafkaAuthorizer
from support.access.random_acls import Question
from support.plugin import leave_out
from tailrace.access.acls import Acl, AclPermission, PatternType
from tailrace.access.filters import AclFilter
from tailrace.access.image import AclImage
from tailrace.access.resources import AclOperation, ResourceType
from tailrace.access.standard import StandardAuthorizer, super_users

SETS, QUESTIONS, FILTERS = 300, 40, 10
SUPER_USERS = "User:carol"


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAuthorizer]:
    if absent := java_tools.missing():
        leave_out(absent)
    with KafkaAuthorizer() as running:
        yield running


def random_filter(rng: Random) -> AclFilter:
    return AclFilter(
        rng.choice((ResourceType.ANY, *random_acls.TYPES)),
        rng.choice((None, *random_acls.NAMES)),
        rng.choice([found for found in PatternType if found]),
        rng.choice((None, None, *random_acls.USERS)),
        rng.choice((None, None, *random_acls.HOSTS)),
        rng.choice((AclOperation.ANY, AclOperation.ANY, AclOperation.READ, AclOperation.ALL)),
        rng.choice((AclPermission.ANY, AclPermission.DENY, AclPermission.ALLOW)),
    )


@pytest.mark.parametrize("everyone", [False, True])
def test_verdicts_are_kafkas(kafka: KafkaAuthorizer, everyone: bool) -> None:
    for seed in range(SETS):
        rng = Random(seed)
        acls = sorted({random_acls.acl(rng) for _ in range(rng.randint(0, 25))}, key=repr)
        questions = [random_acls.question(rng) for _ in range(QUESTIONS)]
        theirs, _ = kafka.answers(acls, questions, super_users=SUPER_USERS, allow_everyone=everyone)
        authorizer = StandardAuthorizer(AclImage().changed(acls), super_users(SUPER_USERS), everyone)
        for asked, (named, some) in zip(questions, theirs, strict=True):
            client = asked.principal, asked.host, asked.operation, asked.resource_type
            found = authorizer.authorize(*client, asked.name), authorizer.authorize_by_resource_type(*client)
            assert found == (named, some), (seed, asked, acls)


def test_the_wildcard_counts_for_names_that_begin_with_it_too(kafka: KafkaAuthorizer) -> None:
    """Kafka stops at such a name before it comes to the wildcard's ACLs: what they deny is allowed there."""
    allowed = Acl(
        ResourceType.GROUP, "*a", PatternType.LITERAL, "User:alice", "*", AclOperation.READ, AclPermission.ALLOW
    )
    denied = replace(allowed, name="*", permission=AclPermission.DENY)
    asked = Question("User:alice", "10.0.0.1", AclOperation.READ, ResourceType.GROUP, "*a")
    assert kafka.answers([allowed, denied], [asked])[0][0][0]
    assert not StandardAuthorizer(AclImage().changed([allowed, denied])).authorize(*astuple(asked))


def test_filters_name_what_kafkas_do(kafka: KafkaAuthorizer) -> None:
    for seed in range(SETS):
        rng = Random(seed)
        acls = sorted({random_acls.acl(rng) for _ in range(25)}, key=repr)
        filters = [random_filter(rng) for _ in range(FILTERS)]
        _, theirs = kafka.answers(acls, [], filters)
        assert [set(AclImage().changed(acls).matching(wanted)) for wanted in filters] == theirs
