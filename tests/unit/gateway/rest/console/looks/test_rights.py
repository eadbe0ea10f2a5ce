"""What pages are told of rights, users and ACLs."""

from __future__ import annotations

from typing import Any

import pytest

from support.authorizers import Recorder
from support.rest_backend import MemoryBackend
from tailrace.access.acls import Acl, AclPermission, PatternType
from tailrace.access.resources import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.errors import ApiError
from tailrace.net.authorization import acl_messages
from tailrace_gateway.rest.access.permitted import PermittedAdmin
from tailrace_gateway.rest.console.looks.rights import AclsLook, rights, users

ALICE = "User:alice"


def seen_by_alice(backend: MemoryBackend, *granted: tuple[str, str, str]) -> PermittedAdmin:
    return PermittedAdmin(backend, Recorder(lambda asked: tuple(asked) in granted), ALICE, "127.0.0.1")


async def may(backend: Any, kind: ResourceType, name: str) -> dict[str, object]:
    return dict((await rights(backend, kind, name)).rows["may"])


async def test_a_cluster_without_an_authorizer_lets_each_page_do_everything() -> None:
    row = await may(MemoryBackend(), ResourceType.TOPIC, "orders")
    assert (row["user"], row["cluster_id"], row["creates_topics"]) == (None, "memory", True)
    assert {"WRITE", "DELETE", "ALTER", "ALTER_CONFIGS"} <= set(row["operations"])  # type: ignore[call-overload]


async def test_a_user_is_told_its_operations_and_nothing_is_reported_as_refused() -> None:
    authorizer = Recorder(lambda asked: tuple(asked) in {("WRITE", "TOPIC", "orders"), ("CREATE", "TOPIC", "*")})
    backend = PermittedAdmin(MemoryBackend(), authorizer, ALICE, "127.0.0.1")
    row = await may(backend, ResourceType.TOPIC, "orders")
    assert (row["user"], row["operations"]) == (ALICE, ["WRITE"])
    assert (await may(backend, ResourceType.CLUSTER, CLUSTER_NAME))["operations"] == []
    assert authorizer.denied == []


async def test_users_and_acls_are_shown_to_those_that_may_describe_the_cluster() -> None:
    backend = MemoryBackend()
    acl = Acl(ResourceType.TOPIC, "o", PatternType.PREFIXED, ALICE, "*", AclOperation.READ, AclPermission.ALLOW)
    await backend.ask_controller(acl_messages.creation([acl]))
    look = AclsLook(backend)
    (row,) = (await look.look()).rows.values()
    assert (row["principal"], row["operation"], row["pattern_type"]) == (ALICE, "READ", "PREFIXED")
    assert (await look.look()).rows is (await look.look()).rows
    assert (await users(seen_by_alice(backend, ("DESCRIBE", "CLUSTER", CLUSTER_NAME)))).rows == {}
    for asked in (AclsLook(seen_by_alice(backend)).look, lambda: users(seen_by_alice(backend))):
        with pytest.raises(ApiError):
            await asked()
