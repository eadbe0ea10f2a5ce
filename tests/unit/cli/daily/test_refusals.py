"""No command reports success for what did not happen: every item of every answer refused, in turn, to every command."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kafka
import pytest
from kafka.errors import MessageSizeTooLargeError
from typer.testing import CliRunner

from support import typed_commands
from support.ports import free_ports
from support.refusing_cluster import RefusingCluster, places
from support.refusing_commands import Producer, run
from support.typed_commands import ASKING, MORE, OTHERS, Argument
from tailrace.cli.command import ABOUT
from tailrace.cli.daily import COMMANDS, app, nodes
from tailrace.cli.daily.connection import runs_here
from tailrace.cli.daily.nodes import Nodes
from tailrace.errors import ErrorCode
from tailrace.net.client import Disconnected
from tailrace.runtime.run_files import RunFile, start_ticks
from tailrace.wire.apis import APIS
from tailrace.wire.codec import Malformed
from tailrace.wire.library import struct_of
from tailrace.wire.response_errors import ERROR_PLACES, ItemError, response_errors

CODES = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_CONFIG, 999)
CASES = [*ASKING.items(), *MORE]
PYTHON = re.compile(r"Traceback|\b[A-Z]\w+(Error|Exception)\b|\w+(Request|Response)\(")


def test_every_command_has_a_row() -> None:
    assert {*ASKING, *OTHERS} == set(typed_commands.command_names())
    assert all((Path(__file__).parents[2] / name).is_file() for name in OTHERS.values())


@pytest.mark.parametrize("role", ABOUT)
def test_the_commands_beside_a_role_are_known_before_typer_is_loaded(role: str) -> None:
    inner = {name.partition(" ")[2] for name in typed_commands.command_names() if name.startswith(f"{role} ")}
    assert set(ABOUT[role]) == inner


def test_every_error_code_of_every_answer_has_a_place() -> None:
    def found(fields: Any, way: str = "") -> Iterator[str]:
        if "error_code" in fields or "partition_error_code" in fields:
            yield way
        for name, field in fields.items():
            inner = getattr(getattr(field, "array_of", field), "fields", None)
            if inner:
                yield from found(inner, f"{way} {name}".strip())

    for key, api in APIS.items():
        without_names = {re.sub(r":\w*", "", place) for place in ERROR_PLACES[key]}
        response: Any = api.response
        assert without_names == set(found(struct_of(response).fields)), api.key.name
    assert ERROR_PLACES.keys() == APIS.keys()


def test_the_names_and_words_of_a_refused_item_are_told() -> None:
    topic = APIS[8].response.OffsetCommitResponseTopic  # type: ignore[attr-defined]
    row = topic.OffsetCommitResponsePartition
    parts = [row(partition_index=0), row(partition_index=4, error_code=25)]
    answer = APIS[8].response(topics=[topic(name="orders", partitions=parts)])
    assert list(response_errors(8, answer)) == [ItemError(("orders", "4"), 25, None)]


@pytest.mark.parametrize(("path", "arguments"), CASES)
def test_a_command_fails_when_any_item_of_any_answer_is_refused(
    path: str, arguments: tuple[Argument, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepting = RefusingCluster()
    done = run(monkeypatch, accepting, path, arguments, tmp_path)
    assert done.exit_code == (1 if path == "reassign verify" else 0), done.output  # which says that it goes on
    for key in sorted(set(accepting.asked)):
        for place in places(key):
            for code in CODES:
                refused = run(monkeypatch, RefusingCluster((key, place), code), path, arguments, tmp_path)
                told = (APIS[key].key.name, place, code, refused.output)
                assert refused.exit_code == 1, told
                assert not PYTHON.search(refused.output), told


@pytest.mark.parametrize(
    "fault", [Disconnected("it went away"), TimeoutError(), Malformed("varint longer than five bytes")]
)
def test_a_command_ends_with_a_sentence_whatever_answer_does_not_come(
    fault: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(RefusingCluster):
        def answer(self, message: Any) -> Any:
            raise fault

    for path, arguments in CASES:
        done = run(monkeypatch, Broken(), path, arguments, tmp_path)
        assert isinstance(done.exception, SystemExit) and done.exit_code == 1, (path, done.output)
        assert len(done.output.splitlines()) == 1 and not PYTHON.search(done.output), done.output


def test_records_that_were_refused_are_counted_once_and_said_without_a_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(Producer):
        def send(self, topic: str, **_: Any) -> Any:
            class Told:  # kafka-python may tell of one record several times
                def add_errback(self, tell: Any) -> None:
                    tell(MessageSizeTooLargeError("it is too large"))
                    tell(MessageSizeTooLargeError("it is too large"))

                def add_callback(self, tell: Any) -> None:
                    pass

            return Told()

    monkeypatch.setattr(nodes, "Client", RefusingCluster().client)
    monkeypatch.setattr(kafka, "KafkaProducer", Refusing)
    done = CliRunner().invoke(app, ["produce", "orders", "-b", "127.0.0.1:1"], input="a\nb\n")
    assert done.exit_code == 1
    assert done.output == "2 of 2 records were not written to orders: MESSAGE_TOO_LARGE: it is too large\n"


def test_a_cluster_that_has_just_started_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Loading(RefusingCluster):
        def answer(self, message: Any) -> Any:
            answer = super().answer(message)
            if message.API_KEY == 15 and self.asked.count(15) == 1:
                answer.groups[0].error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return answer

    cluster = Loading()
    done = run(monkeypatch, cluster, "group describe", ASKING["group describe"], tmp_path)
    assert done.exit_code == 0, done.output
    assert cluster.asked.count(15) == 2


def test_a_command_says_at_once_that_nothing_listens_and_what_starts_a_cluster() -> None:
    where = f"127.0.0.1:{free_ports(1)}"
    for command in (["topic", "list"], ["produce", "orders"], ["consume", "orders"]):
        done = CliRunner().invoke(app, [*command, "-b", where], input="a\n")
        assert done.exit_code == 1
        assert (
            done.output
            == f"{where}: nothing listens there; `tailrace up` starts a cluster, --bootstrap names another\n"
        )


def test_a_refused_connection_is_no_answer_yet_while_a_cluster_starts_there() -> None:
    host, port = "127.0.0.1", free_ports(1)
    log: list[str] = []

    class Starting(Nodes):
        def pause(self, time_ms: float) -> None:
            log.append("starts" if not log else "stops")

    cluster = Starting(f"{host}:{port}", lambda: log != ["starts", "stops"])
    with pytest.raises(Disconnected):
        cluster.brokers()
    cluster.close()
    assert log == ["starts", "stops"]


def test_the_cluster_of_the_default_directory_is_known_by_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAILRACE_DATA_DIR", str(tmp_path))
    (tmp_path / "run").mkdir()
    assert not runs_here("127.0.0.1:9092")
    for ticks, expected in ((start_ticks(os.getpid()), True), (start_ticks(os.getpid()) - 1, False)):
        up = RunFile("up", -1, os.getpid(), ticks, 0, addresses={"bootstrap": "127.0.0.1:9092"})
        up.write(tmp_path / "run")
        assert runs_here("127.0.0.1:9092") == expected
        assert not runs_here("127.0.0.1:9093")


def test_the_line_about_a_command_in_the_help_needs_no_import() -> None:
    said = CliRunner().invoke(app, ["--help"]).output
    assert all(f"  {name} " in said for name in COMMANDS)


@pytest.mark.parametrize("command", ["topic list", "status"])
def test_a_bootstrap_address_without_a_host_name_is_said_to_be_so(command: str) -> None:
    done = CliRunner().invoke(app, [*command.split(), "--bootstrap", "a..b:9092"])
    assert (done.exit_code, "a..b:9092: it is not a host name; --bootstrap names another cluster" in done.output) == (
        1,
        True,
    )
