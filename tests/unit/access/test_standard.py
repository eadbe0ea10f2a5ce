"""The verdict on an operation, beside the rules as they are written down."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.access import random_acls
from support.access.random_acls import Question
from tailrace.access.acls import ALL_USERS, WILDCARD, Acl, AclPermission, PatternType
from tailrace.access.hosts import covers
from tailrace.access.image import AclImage
from tailrace.access.resources import AclOperation, ResourceType
from tailrace.access.standard import StandardAuthorizer, super_users

TOPIC = ResourceType.TOPIC


def verdict(acls: set[Acl], question: Question, *, allow_everyone: bool) -> bool:
    """The rules of StandardAuthorizer, one ACL after the other."""
    on_it = {
        acl
        for acl in acls
        if acl.resource_type is question.resource_type
        and (
            (acl.pattern_type is PatternType.LITERAL and acl.name in (question.name, WILDCARD))
            or (acl.pattern_type is PatternType.PREFIXED and question.name.startswith(acl.name))
        )
    }
    if not on_it:
        return allow_everyone
    permissions = {
        acl.permission
        for acl in on_it
        if acl.principal in (question.principal, ALL_USERS)
        and covers(acl.host, question.host)
        and acl.covers(question.operation)
    }
    return permissions == {AclPermission.ALLOW}


@settings(max_examples=500)
@given(st.randoms(use_true_random=False), st.integers(0, 30), st.booleans())
def test_verdicts(rng: Random, count: int, everyone: bool) -> None:
    acls = {random_acls.acl(rng) for _ in range(count)}
    authorizer = StandardAuthorizer(AclImage().changed(acls), allow_everyone=everyone)
    for _ in range(10):
        asked = random_acls.question(rng)
        allowed = authorizer.authorize(asked.principal, asked.host, asked.operation, asked.resource_type, asked.name)
        assert allowed == verdict(acls, asked, allow_everyone=everyone)


def test_super_users_may_do_all() -> None:
    denied = Acl(TOPIC, "*", PatternType.LITERAL, "User:*", "*", AclOperation.ALL, AclPermission.DENY)
    authorizer = StandardAuthorizer(AclImage().changed([denied]), super_users("User:admin; User:CN=a,O=b ;"))
    for principal, allowed in (("User:admin", True), ("User:CN=a,O=b", True), ("User:alice", False)):
        assert authorizer.authorize(principal, "10.0.0.1", AclOperation.WRITE, TOPIC, "orders") is allowed
        assert authorizer.authorize_by_resource_type(principal, "10.0.0.1", AclOperation.WRITE, TOPIC) is allowed


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], False),
        ([("orders", PatternType.LITERAL, AclPermission.ALLOW)], True),
        (
            [
                ("orders", PatternType.LITERAL, AclPermission.ALLOW),
                ("orders", PatternType.LITERAL, AclPermission.DENY),
            ],
            False,
        ),
        ([("ord", PatternType.PREFIXED, AclPermission.ALLOW), ("o", PatternType.PREFIXED, AclPermission.DENY)], False),
        ([("o", PatternType.PREFIXED, AclPermission.ALLOW), ("ord", PatternType.PREFIXED, AclPermission.DENY)], True),
        ([("*", PatternType.LITERAL, AclPermission.ALLOW), ("ord", PatternType.PREFIXED, AclPermission.DENY)], True),
        ([("orders", PatternType.LITERAL, AclPermission.ALLOW), ("*", PatternType.LITERAL, AclPermission.DENY)], False),
    ],
)
def test_the_right_to_some_resource(rules: list[tuple[str, PatternType, AclPermission]], expected: bool) -> None:
    acls = [
        Acl(TOPIC, name, pattern_type, "User:alice", "*", AclOperation.WRITE, permission)
        for name, pattern_type, permission in rules
    ]
    authorizer = StandardAuthorizer(AclImage().changed(acls))
    assert authorizer.authorize_by_resource_type("User:alice", "10.0.0.1", AclOperation.WRITE, TOPIC) is expected


def test_an_empty_name_is_a_name_as_any_other() -> None:
    acl = Acl(ResourceType.GROUP, "g1", PatternType.LITERAL, "User:alice", "*", AclOperation.ALL, AclPermission.ALLOW)
    question = ("User:alice", "10.0.0.1", AclOperation.DELETE, ResourceType.GROUP, "")
    assert not StandardAuthorizer(AclImage().changed([acl])).authorize(*question)
    assert StandardAuthorizer(AclImage().changed([replace(acl, name="*")])).authorize(*question)


def test_an_authorizer_takes_a_new_image() -> None:
    acl = Acl(TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", AclOperation.READ, AclPermission.ALLOW)
    before = StandardAuthorizer(AclImage(), super_users("User:admin"))
    after = before.with_acls(before.acls.changed([acl]))
    question = ("User:alice", "10.0.0.1", AclOperation.DESCRIBE, TOPIC, "orders")
    assert not before.authorize(*question)
    assert after.authorize(*question)
    assert after.super_users == {"User:admin"}
