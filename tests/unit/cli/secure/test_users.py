"""`tailrace user`: what is asked, and where a password comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from support.refusing_cluster import RefusingCluster
from tailrace.access.scram import ScramMechanism, salted
from tailrace.cli.daily import app, nodes


class Recording(RefusingCluster):
    """Keeps what was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Any] = []

    def answer(self, message: Any) -> Any:
        self.messages.append(message)
        return super().answer(message)

    def upsertions(self) -> list[Any]:
        return [one for message in self.messages for one in getattr(message, "upsertions", ())]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Recording:
    found = Recording()
    monkeypatch.setattr(nodes, "Client", found.client)
    return found


def typed(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(app, ["user", *words], input=stdin, env={"TAILRACE_BOOTSTRAP": "127.0.0.1:1"})


def test_users_are_listed(cluster: Recording) -> None:
    done = typed("list")
    assert [line.split() for line in done.output.splitlines()] == [
        ["user", "mechanism", "iterations"],
        ["alice", "SCRAM-SHA-256", "4096"],
        ["alice", "SCRAM-SHA-512", "4096"],
    ]
    assert json.loads(typed("list", "--json").output)[0] == {
        "user_name": "alice",
        "credentials": [
            {"mechanism": "SCRAM-SHA-256", "iterations": 4096},
            {"mechanism": "SCRAM-SHA-512", "iterations": 4096},
        ],
    }


def test_a_password_comes_from_stdin_and_goes_out_salted(cluster: Recording) -> None:
    done = typed("create", "bob", "--iterations", "8192", stdin="secret\nmore\n")
    assert (done.exit_code, done.output) == (0, "bob can log in.\n")
    row, other = cluster.upsertions()
    assert (row.name, row.mechanism, row.iterations, len(row.salt)) == ("bob", 1, 8192, 16)
    assert (other.name, other.mechanism) == ("bob", 2)  # without --mechanism any client can log in
    assert row.salted_password == salted(ScramMechanism.SCRAM_SHA_256, "secret", row.salt, 8192)


def test_a_password_comes_from_a_file(cluster: Recording, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret\n")
    both = ("--mechanism", "SCRAM-SHA-512", "--mechanism", "SCRAM-SHA-256")
    assert typed("create", "bob", "--password-file", str(file), *both).exit_code == 0
    rows = cluster.upsertions()
    assert [row.mechanism for row in rows] == [2, 1] and rows[0].salt != rows[1].salt
    assert rows[0].salted_password == salted(ScramMechanism.SCRAM_SHA_512, "secret", rows[0].salt, 4096)


@pytest.mark.parametrize("stdin", ["", "\n", "a\0b\n", "p" * 256 + "\n"])
def test_what_is_no_password_is_refused_before_anything_is_asked(cluster: Recording, stdin: str) -> None:
    done = typed("create", "bob", stdin=stdin)
    assert done.exit_code == 2 and cluster.messages == []


def test_a_user_that_exists_is_not_created_again(cluster: Recording) -> None:
    done = typed("create", "alice", stdin="secret\n")
    assert done.exit_code == 1 and "`tailrace user password`" in done.output and cluster.upsertions() == []


def test_a_new_password_is_for_each_mechanism_that_the_user_has(cluster: Recording) -> None:
    assert typed("password", "alice", stdin="other\n").exit_code == 0
    assert [row.mechanism for row in cluster.upsertions()] == [1, 2]


def test_a_user_is_deleted_with_all_its_credentials(cluster: Recording) -> None:
    assert typed("delete", "alice").exit_code == 0
    deletions = [one.mechanism for message in cluster.messages for one in getattr(message, "deletions", ())]
    assert deletions == [1, 2]


@pytest.mark.parametrize("command", ["password", "delete"])
def test_a_user_that_there_is_not_is_named(cluster: Recording, command: str) -> None:
    done = typed(command, "bob", stdin="secret\n")
    assert done.exit_code == 1 and "There is no user bob" in done.output


def test_a_directory_without_a_controller_is_a_mistake(tmp_path: Path) -> None:
    done = typed("create", "bob", "--data", str(tmp_path), stdin="secret\n")
    assert done.exit_code == 1 and "no controller runs here" in done.output
