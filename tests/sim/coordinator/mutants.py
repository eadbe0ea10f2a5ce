"""`PYTHONPATH=tests python -m sim.coordinator.mutants`: rules of groups broken one at a time, each found by a test.

Each change is made in a copy of the coordinator, and the unit test that is named beside it must fail on the copy. All
of these tests pass on a copy without a change. It is run by hand after a change of `groups/`, and takes a minute.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import tailrace_coordinator
from bench.report import say

_TESTS: Final = Path(__file__).parents[2]
_UNIT: Final = _TESTS / "unit" / "coordinator" / "groups"
_PACKAGE: Final = Path(tailrace_coordinator.__file__).parent


class Mutant(NamedTuple):
    """A line of a file of `groups/`, and what stands in its place; found_by: the test that must fail."""

    rule: str
    file: str
    line: str
    broken: str
    found_by: str


MUTANTS: Final = (
    Mutant(
        "a member gets only partitions that no other member owns",
        "modern/reconciliation.py",
        "if partition in own or target.is_free(topic_id, partition):",
        "if True:",
        "modern/test_reconciliation.py::test_what_others_own_is_waited_for",
    ),
    Mutant(
        "a member stays in its epoch until it has given up what it must",
        "modern/reconciliation.py",
        "return Current(member_epoch, current.member_epoch, state, kept, revoked)",
        "return Current(target.epoch, current.member_epoch, state, kept, revoked)",
        "modern/test_reconciliation.py::test_partitions_are_given_up_before_others_are_got_and_before_the_epoch_moves",
    ),
    Mutant(
        "a member has given up a partition when it says so",
        "modern/reconciliation.py",
        "if reported is None:\n        return True",
        "if reported is None:\n        return False",
        "consumer/test_heartbeat.py::test_a_second_member_gets_what_the_first_one_gave_up",
    ),
    Mutant(
        "a member in an earlier epoch is fenced",
        "consumer/validation.py",
        "if is_previous and reported is not None and is_part_of(reported, current.assigned):",
        "if True:",
        "consumer/test_heartbeat.py::test_a_member_in_another_epoch_is_fenced_and_joins_again",
    ),
    Mutant(
        "partitions of a member that goes are free",
        "consumer/group.py",
        "if owners.get(partition) == member_id:",
        "if current is not None and owners.get(partition) == member_id:",
        "consumer/test_heartbeat.py::test_a_member_that_leaves_hands_its_partitions_over",
    ),
    Mutant(
        "a member that goes begins the next group epoch",
        "consumer/leave.py",
        "epoch = group.group_epoch + 1",
        "epoch = group.group_epoch",
        "consumer/test_heartbeat.py::test_a_member_that_leaves_hands_its_partitions_over",
    ),
    Mutant(
        "between two assignments of a group there is a pause",
        "consumer/rebalance.py",
        "return group.assignment_timestamp_ms == 0 or age_ms >= pause_ms or age_ms < 0",
        "return True",
        "consumer/test_heartbeat.py::test_members_that_join_together_are_assigned_together",
    ),
    Mutant(
        "a static member that restarts keeps its target",
        "consumer/members.py",
        "rows = target_rows(group.targets.get(holder, {}))",
        "rows = target_rows({})",
        "consumer/test_heartbeat.py::test_a_static_member_that_restarts_has_its_partitions_back_without_a_rebalance",
    ),
    Mutant(
        "a target that a thread computed is for the members that are still there",
        "consumer/target.py",
        "if member_id in group.members}",
        "}",
        "consumer/test_target.py::test_a_member_that_left_meanwhile_gets_nothing",
    ),
    Mutant(
        "a partition that was got in a later epoch is not committed with an earlier one",
        "consumer/group.py",
        "if got is None or epoch < got:",
        "if got is None:",
        "consumer/test_group.py::test_a_commit",
    ),
    Mutant(
        "an upgraded group has one owner of each partition",
        "consumer/migration.py",
        "if (topic_id, partition) not in taken:",
        "if True:",
        "consumer/test_migration.py::test_a_partition_that_two_classic_members_were_assigned_has_one_owner",
    ),
    Mutant(
        "the records of a migration are in one batch",
        "consumer/migration.py",
        "decision.keep_whole()\n    group.metadata_hash ^= 1",
        "group.metadata_hash ^= 1",
        "consumer/test_migration.py::test_a_migration_is_in_the_log_whole_or_not_at_all",
    ),
    Mutant(
        "classic members are handed their assignments when these are in the log",
        "classic/sync.py",
        "    decision.then(answer_syncs, group)",
        "    group.state = GroupState.STABLE\n    answer_syncs(decision, group)",
        "classic/test_sync_and_leave.py::test_assignments_leave_only_when_they_are_committed",
    ),
    Mutant(
        "a classic member that does not join again is out",
        "classic/rebalance.py",
        "_remove(decision, group, absent)",
        "pass",
        "classic/test_join.py::test_a_member_that_does_not_rejoin_in_time_is_out",
    ),
)


def fails(path: Path, tests: Sequence[str]) -> bool:
    """Whether one of the tests fails with the coordinator that lies in this folder."""
    environ: Mapping[str, str] = {**os.environ, "PYTHONPATH": os.pathsep.join([str(path), str(_TESTS)])}
    options = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", "--rootdir", str(_TESTS.parent))
    command = [sys.executable, "-m", "pytest", *options, *(str(_UNIT / test) for test in tests)]
    done = subprocess.run(command, cwd=_TESTS.parent, env=environ, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: a test failed
        raise RuntimeError(done.stdout + done.stderr)
    return done.returncode == 1


def is_found(mutant: Mutant) -> bool:
    """Whether its test fails."""
    with TemporaryDirectory(prefix="mutant-") as folder:
        package = Path(folder) / _PACKAGE.name
        shutil.copytree(_PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        file = package / "groups" / mutant.file
        text = file.read_text()
        if text.count(mutant.line) != 1:
            raise ValueError(f"{mutant.file} has not one such line: {mutant.line}")
        file.write_text(text.replace(mutant.line, mutant.broken))
        return fails(Path(folder), [mutant.found_by])


def main() -> int:
    """Prints a line for each; 1 where a test lets one pass, or fails without a change."""
    if fails(_PACKAGE.parent, sorted({mutant.found_by for mutant in MUTANTS})):
        say("a test fails without a change")
        return 1
    passed = 0
    for mutant in MUTANTS:
        found = is_found(mutant)
        passed += not found
        say(f"{'found' if found else 'NOT FOUND'}: {mutant.rule} ({mutant.found_by})")
    say(f"{len(MUTANTS) - passed} of {len(MUTANTS)} found")
    return min(passed, 1)


if __name__ == "__main__":
    sys.exit(main())
