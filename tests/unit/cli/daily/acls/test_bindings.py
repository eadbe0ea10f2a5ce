"""What the options of `tailrace acl` name, as those of kafka-acls.sh do."""

from __future__ import annotations

import pytest

from tailrace.access.acls import AclPermission, PatternType
from tailrace.access.filters import AclFilter
from tailrace.access.resources import AclOperation, ResourceType
from tailrace.cli.daily.acls.bindings import AclOptionsError, AclRules, Resources, acls_of, filters_of

ALICE = ("User:alice",)
BOTH = Resources(topics=("t",), groups=("g",))


def named(resources: Resources, rules: AclRules) -> set[tuple[str, str, str]]:
    return {(acl.resource_type.name, acl.name, acl.operation.name) for acl in acls_of(resources, rules)}


def test_a_producer_may_write_its_topics_and_use_its_transactional_ids() -> None:
    resources = Resources(topics=("t",), transactional_ids=("x",))
    assert named(resources, AclRules(ALICE, producer=True, idempotent=True)) == {
        ("TOPIC", "t", "WRITE"),
        ("TOPIC", "t", "DESCRIBE"),
        ("TOPIC", "t", "CREATE"),
        ("TRANSACTIONAL_ID", "x", "WRITE"),
        ("TRANSACTIONAL_ID", "x", "DESCRIBE"),
        ("CLUSTER", "kafka-cluster", "IDEMPOTENT_WRITE"),
    }


def test_a_consumer_may_read_its_topics_as_a_member_of_its_groups() -> None:
    assert named(BOTH, AclRules(ALICE, consumer=True)) == {
        ("TOPIC", "t", "READ"),
        ("TOPIC", "t", "DESCRIBE"),
        ("GROUP", "g", "READ"),
    }


def test_each_principal_gets_each_operation_on_each_resource_from_each_host() -> None:
    rules = AclRules(("User:a", "User:b"), ("User:c",), ("10.0.0.1", "10.0.0.2"), operations=(AclOperation.READ,))
    acls = acls_of(BOTH, rules)
    assert len(acls) == len(set(acls)) == 2 * (2 * 2 + 1)
    assert {(acl.principal, acl.host, acl.permission) for acl in acls if acl.principal == "User:c"} == {
        ("User:c", "*", AclPermission.DENY)
    }


def test_without_an_operation_it_is_every_one_and_prefixes_are_not_for_the_cluster() -> None:
    resources = Resources(topics=("t",), cluster=True, pattern_type=PatternType.PREFIXED)
    assert {(acl.name, acl.operation, acl.pattern_type) for acl in acls_of(resources, AclRules(ALICE))} == {
        ("t", AclOperation.ALL, PatternType.PREFIXED),
        ("kafka-cluster", AclOperation.ALL, PatternType.LITERAL),
    }


@pytest.mark.parametrize(
    ("resources", "rules", "why"),
    [
        (BOTH, AclRules(), "whose?"),
        (Resources(), AclRules(ALICE), "for what?"),
        (Resources(groups=("g",)), AclRules(ALICE, producer=True), "--producer needs --topic"),
        (Resources(topics=("t",)), AclRules(ALICE, consumer=True), "--consumer needs --topic and --group"),
        (BOTH, AclRules(ALICE, idempotent=True), "--idempotent goes with --producer"),
        (BOTH, AclRules(ALICE, consumer=True, operations=(AclOperation.READ,)), "--operation, or --producer"),
        (BOTH, AclRules(ALICE, operations=(AclOperation.WRITE,)), "a group has no operation write, but read, delete"),
        (Resources(topics=("t",), pattern_type=PatternType.MATCH), AclRules(ALICE), "literal or prefixed"),
    ],
)
def test_options_that_do_not_go_together_are_refused(resources: Resources, rules: AclRules, why: str) -> None:
    with pytest.raises(AclOptionsError, match=why.replace("?", r"\?")):
        acls_of(resources, rules)


def test_filters_name_resources_principals_and_operations() -> None:
    assert filters_of(Resources(pattern_type=PatternType.ANY)) == [AclFilter()]
    found = filters_of(BOTH, ("User:a", "User:b"), (AclOperation.READ,), AclPermission.DENY, "10.0.0.1")
    assert len(found) == 4
    assert found[0] == AclFilter(
        ResourceType.TOPIC,
        "t",
        PatternType.LITERAL,
        "User:a",
        "10.0.0.1",
        AclOperation.READ,
        AclPermission.DENY,
    )
