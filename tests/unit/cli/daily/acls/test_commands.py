"""`tailrace acl`: what is asked of a cluster, and what is shown of its answer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

import pytest
from typer.testing import CliRunner, Result

from support.metadata import after
from support.metadata import cluster as image_of
from support.refusing_cluster import RefusingCluster
from tailrace.cli.daily import app, nodes
from tailrace.errors import ErrorCode
from tailrace.kafka.features import SECURITY_VERSION
from tailrace.wire import messages as m
from tailrace_controller.decide import acls
from tailrace_controller.decide.controller_result import ControllerResult

Reply = TypeVar("Reply")


class Authorizing(RefusingCluster):
    """Keeps ACLs as a controller does."""

    def __init__(self) -> None:
        super().__init__()
        self.image = replace(image_of(), features={SECURITY_VERSION: 1})
        self.made = 0

    def new_uuid(self) -> UUID:
        self.made += 1
        return UUID(int=self.made)

    def answer(self, message: Any) -> Any:
        if isinstance(message, m.DescribeAclsRequest):
            return acls.describe(self.image, message)
        if isinstance(message, m.CreateAclsRequest):
            return self.applied(acls.create(self.image, message, self.new_uuid))
        if isinstance(message, m.DeleteAclsRequest):
            return self.applied(acls.delete(self.image, message))
        return super().answer(message)

    def applied(self, result: ControllerResult[Reply]) -> Reply:
        self.image = after(self.image, *result.records)
        return result.reply


@pytest.fixture
def authorizing(monkeypatch: pytest.MonkeyPatch) -> Authorizing:
    found = Authorizing()
    monkeypatch.setattr(nodes, "Client", found.client)
    return found


def typed(*words: str) -> Result:
    return CliRunner().invoke(app, ["acl", *words], env={"TAILRACE_BOOTSTRAP": "127.0.0.1:1"})


def rows(*words: str) -> list[dict[str, str]]:
    done = typed(*words, "--json")
    assert done.exit_code == 0, done.output
    return list(json.loads(done.stdout))


def test_acls_are_created_listed_and_deleted(authorizing: Authorizing) -> None:
    consumer = ("--consumer", "--topic", "orders", "--group", "billing", "--allow-principal", "User:alice")
    made = rows("create", *consumer)
    assert [(row["resource_type"], row["operation"]) for row in made] == [
        ("TOPIC", "READ"),
        ("TOPIC", "DESCRIBE"),
        ("GROUP", "READ"),
    ]
    prefixed = ("--resource-pattern-type", "prefixed", "--topic", "ord", "--operation", "DescribeConfigs")
    assert typed("create", *prefixed, "--deny-principal", "User:*", "--deny-host", "10.0.0.0/8").exit_code == 0
    assert len(rows("list")) == 4
    (found,) = rows("list", "--topic", "orders", "--resource-pattern-type", "match", "--principal", "User:*")
    assert found == {
        "resource_type": "TOPIC",
        "resource_name": "ord",
        "pattern_type": "PREFIXED",
        "principal": "User:*",
        "host": "10.0.0.0/8",
        "permission": "DENY",
        "operation": "DESCRIBE_CONFIGS",
    }
    assert len(rows("delete", "--principal", "User:alice")) == 3
    shown = typed("list").stdout.splitlines()
    assert shown[0].split("  ")[0] == "resource type" and len(shown) == 2


def test_an_acl_that_the_cluster_refuses_is_named(authorizing: Authorizing) -> None:
    done = typed("create", "--allow-principal", "alice", "--topic", "t", "--operation", "read")
    assert done.exit_code == 1
    assert "topic t literal alice * allow read" in done.output and "INVALID_REQUEST" in done.output
    assert not set(authorizing.image.acls)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["create", "--topic", "t"], "whose?"),
        (["create", "--topic", "t", "--allow-principal", "User:a", "--operation", "reed"], "--operation reed"),
        (["delete"], "which?"),
        (["list", "--resource-pattern-type", "x"], "--resource-pattern-type x"),
    ],
)
def test_a_command_line_that_is_wrong_asks_nothing(words: list[str], why: str, authorizing: Authorizing) -> None:
    done = typed(*words)
    assert done.exit_code == 2 and why in " ".join(done.output.split())


def test_a_cluster_without_an_authorizer_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Open(RefusingCluster):
        def answer(self, message: Any) -> Any:
            why = "No Authorizer is configured on the broker"
            return m.DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=why, resources=[])

    monkeypatch.setattr(nodes, "Client", Open().client)
    done = typed("list")
    assert done.exit_code == 1 and "SECURITY_DISABLED" in done.output
