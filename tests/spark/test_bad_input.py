"""Bad input ends in one sentence that says what to do, within seconds and without a stack trace."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.spark_cluster import SparkCluster
from support.spark_jars import VERSION
from tailrace_spark import jobs, preflight, values
from tailrace_spark.cli import COMPLETE, main, parse, run
from tailrace_spark.connector import coordinates, jars_in
from tailrace_spark.job import BOOTSTRAP, CHECKPOINT, KAFKA_OPTION, Job, JobRun, Option
from tailrace_spark.kafka import client_options
from tailrace_spark.launch import run_checked, spark_settings
from tailrace_spark.refusal import Refusal
from tailrace_spark.session import require_class


def nothing(run: JobRun) -> None:
    """A job that has nothing to do."""


JOB = Job(
    "nothing",
    "does nothing",
    (BOOTSTRAP, CHECKPOINT, KAFKA_OPTION, Option("--topic", "a topic")),
    nothing,
    topics=lambda options: (options.topic,),
)


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What the command says, after the checks that every refusal must pass."""
    assert run(words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("tailrace-spark: ")
    assert told.err.count("\n") == 1
    return told.err


def test_an_unknown_job_is_told_the_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    told = refusal(capsys, "archiv")
    assert "'archiv' is no job" in told
    assert all(name in told for name in jobs.JOBS)


def test_a_wrong_option_is_told_where_the_right_ones_are() -> None:
    for words in (["--bootstrap"], ["--bootstrap", "x:1", "--checkpoint", "c", "--nonsense", "1"], []):
        with pytest.raises(Refusal, match="tailrace-spark nothing --help"):
            parse(JOB, words)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "metrics --window 0",
            "Invalid value for '--window': '0' is not a whole number from 1 on; see tailrace-spark metrics --help.",
        ),
        ("logs --max-offsets-per-trigger many", "'many' is not a whole number from 1 on"),
        ("logs --trigger soon", "'soon' is neither 'now' nor a time such as '10 seconds'"),
        ("activity nightly --day tomorrow", "tomorrow is no day; for example 2026-11-20"),
        ("activity report --since yesterday", "'yesterday' is no time; for example 2026-11-20"),
        ("archive --fail-on-data-loss maybe", "'maybe' is neither true nor false"),
        ("table vacuum /logs --keep 30m", "'30m' is no time of an hour or more; for example 36h, 7d or 2w"),
        ("logs --master nonsense", "'nonsense' is no master of Spark; for example local[2]"),
    ],
)
def test_a_value_that_is_none_is_told_what_it_may_be(
    capsys: pytest.CaptureFixture[str], words: str, sentence: str
) -> None:
    assert sentence in refusal(capsys, *words.split())


def test_help_is_an_answer_and_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["table", "vacuum", "--help"]) == 0
    told = capsys.readouterr().out
    assert "Usage: tailrace-spark table vacuum [OPTIONS] {TABLE}" in told and "[default: 7d]" in told


def asked(line: str) -> dict[str, str]:
    """The environment in which the shell's function asks for words."""
    return {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1), COMPLETE: "complete_bash"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("tailrace-spark activity ni", ["nightly"]),
        ("tailrace-spark activity --gap 5 --la", ["--lateness"]),
        ("tailrace-spark table vacuum --ke", ["--keep"]),
    ],
)
def test_a_shell_completes_jobs_and_options(
    line: str, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in asked(line).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.split() == words


def test_a_shell_completes_by_the_command() -> None:
    command = [sys.executable, "-m", "tailrace_spark"]
    environ = os.environ | asked("tailrace-spark act")
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["activity"]


def test_the_function_of_a_shell_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "bash"]) == 0
    assert COMPLETE in capsys.readouterr().out
    assert "takes the name of a shell: bash, zsh, fish" in refusal(capsys, "completion", "tcsh")


@pytest.mark.parametrize("text", ["now", "10 seconds", "1 minute", "2 hours 30 minutes", "500 milliseconds"])
def test_times_between_batches(text: str) -> None:
    assert values.trigger(text) == text


@pytest.mark.parametrize("text", ["local", "local[*]", "local[2,3]", "spark://a:1,b:2", "yarn", "k8s://https://h:6443"])
def test_masters(text: str) -> None:
    assert values.master(text) == text


def test_a_job_has_no_other_options_than_its_own() -> None:
    assert vars(JOB.given(topic="t"))["kafka_option"] == []
    with pytest.raises(AssertionError, match="has no option"):
        JOB.given(topics="t")


@pytest.mark.parametrize("bootstrap", ["localhost", "localhost:", ":9092", "localhost:90920", "a:1,b"])
def test_an_address_that_is_none_is_refused(bootstrap: str) -> None:
    with pytest.raises(Refusal, match="is not host:port"):
        preflight.addresses(bootstrap)


def test_addresses_are_taken_apart() -> None:
    assert preflight.addresses("one:1, [::1]:2") == [("one", 1), ("::1", 2)]


def test_a_bootstrap_where_nothing_listens_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Refusal, match=f"Nothing answers at --bootstrap 127.0.0.1:{port}"):
        preflight.require_listener(f"127.0.0.1:{port}")
    with pytest.raises(Refusal, match=f"Nothing answers at --master spark://127.0.0.1:{port}"):
        preflight.require_master(f"spark://127.0.0.1:{port}")


def test_settings_without_a_value_are_refused() -> None:
    with pytest.raises(Refusal, match="not KEY=VALUE"):
        client_options(["client.rack"])
    with pytest.raises(Refusal, match=r"not spark\.KEY=VALUE"):
        spark_settings(["driver.memory=1g"])
    assert client_options(["client.rack=west", "kafka.group.id=a=b"]) == {
        "kafka.client.rack": "west",
        "kafka.group.id": "a=b",
    }


def test_a_folder_without_a_jar_is_told_which(tmp_path: Path, jars: Path) -> None:
    assert len(jars_in(jars, VERSION)) == len(coordinates(VERSION))
    with pytest.raises(Refusal, match=f"has no spark-sql-kafka-0-10_2.13-{VERSION}.jar"):
        jars_in(tmp_path, VERSION)
    with pytest.raises(Refusal, match="is not a folder"):
        jars_in(tmp_path / "none", VERSION)


def test_a_session_without_the_connector_is_refused(spark: SparkSession) -> None:
    with pytest.raises(Refusal, match=r"is not on the class path; add --packages org\.apache\.spark:spark-sql"):
        require_class(spark, "org.apache.spark.sql.kafka010.NoSuchProvider")


def options(cluster: SparkCluster, checkpoint: Path, topic: str) -> Namespace:
    return Namespace(
        bootstrap=cluster.bootstrap, checkpoint=str(checkpoint), topic=topic, kafka_option=[], log=Path("log")
    )


def test_a_missing_topic_is_named(spark: SparkSession, cluster: SparkCluster, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="There is no topic nowhere at"):
        run_checked(JOB, options(cluster, tmp_path / "c", "nowhere"), spark)
    assert not (tmp_path / "c").exists()


def test_a_checkpoint_serves_one_job(spark: SparkSession, cluster: SparkCluster, tmp_path: Path) -> None:
    topic = cluster.create("claimed")
    mine = options(cluster, tmp_path / "c", topic)
    run_checked(JOB, mine, spark)
    run_checked(JOB, mine, spark)
    other = Job("other", "another", JOB.options, nothing)
    with pytest.raises(Refusal, match=r"is the checkpoint of the job nothing; give other a --checkpoint of its own"):
        run_checked(other, mine, spark)


def test_a_folder_with_other_things_is_no_checkpoint(
    spark: SparkSession, cluster: SparkCluster, tmp_path: Path
) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(Refusal, match=r"is not empty and no checkpoint of tailrace-spark"):
        run_checked(JOB, options(cluster, tmp_path, cluster.create("claimed")), spark)


def test_an_address_that_speaks_no_kafka_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        bootstrap = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Refusal, match="does not answer as Kafka does"):
            limits = {"kafka.default.api.timeout.ms": "500", "kafka.request.timeout.ms": "500"}
            preflight.require_topics(spark, {"kafka.bootstrap.servers": bootstrap, **limits}, ["any"])
