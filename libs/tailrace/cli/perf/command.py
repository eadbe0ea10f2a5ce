"""The commands of `tailrace perf`, with the options of Kafka's tools."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from tailrace import __version__
from tailrace.cli.daily.connection import Bootstrap, given, say
from tailrace.cli.daily.nodes import nodes
from tailrace.cli.daily.output import show
from tailrace.cli.daily.refusals import RefusedError
from tailrace.cli.perf import end_to_end, stats
from tailrace.cli.perf.consuming import consumed
from tailrace.cli.perf.producing import produced

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Measure writing, reading, and the way of a record through the cluster.",
)
TopicOption = Annotated[str, typer.Option("--topic", "-t", callback=given, help="which has to exist")]
NumRecords = Annotated[int, typer.Option("--num-records", "--messages", "-n", min=1, max=1_000_000_000)]
RecordSize = Annotated[int, typer.Option("--record-size", min=1, max=10_000_000, help="bytes of a value")]
Acks = Annotated[str, typer.Option("--acks", help="0, 1 or all")]
_OWN: Final = f"tailrace {__version__}, in Python"


@app.command(short_help="Write records as fast as it goes, or at a rate.")
def produce(
    topic: TopicOption,
    num_records: NumRecords = 100_000,
    record_size: RecordSize = 100,
    throughput: Annotated[float, typer.Option("--throughput", help="records a second at most; -1: no limit")] = -1,
    acks: Acks = "all",
    compression: Annotated[
        str, typer.Option("--compression-type", help="none, gzip, lz4, snappy or zstd, as far as kafka-python has them")
    ] = "none",
    bootstrap: Bootstrap = None,
) -> None:
    """Write records of random letters, and say how fast it went and when each was acknowledged.

    A line for each 5 seconds is on stderr. It uses kafka-python, as `produce`; the last line says what that costs.
    """
    if acks not in {"0", "1", "all", "-1"}:
        raise typer.BadParameter(f"--acks {acks}: expected 0, 1 or all")
    with nodes(bootstrap) as cluster:
        cluster.check_leaders(topic)
    try:  # not within nodes(), where kafka-python's clients cannot be imported
        run, latencies, library = produced(
            bootstrap,
            topic,
            num_records=num_records,
            record_size=record_size,
            throughput=throughput,
            acks="all" if acks == "-1" else acks,
            compression=compression,
        )
    except RefusedError as refused:
        say(str(refused), err=True)
        raise typer.Exit(1) from None
    _report("sent", run, latencies, library)


@app.command(short_help="Read records as fast as it goes.")
def consume(topic: TopicOption, num_records: NumRecords = 100_000, bootstrap: Bootstrap = None) -> None:
    """Read a topic from its beginning, until there were so many records or its end as it is now is reached."""
    with nodes(bootstrap, lasting=True) as cluster:
        cluster.check_leaders(topic)
        run = consumed(cluster, topic, num_records)
    _report("read", run, {}, _OWN)


@app.command("end-to-end", short_help="Write a record and wait for it, one after another.")
def end_to_end_latency(
    topic: TopicOption,
    num_records: NumRecords = 1_000,
    record_size: RecordSize = 100,
    acks: Acks = "all",
    bootstrap: Bootstrap = None,
) -> None:
    """Write a record, wait until a consumer has it, and write the next one; the latencies are from send to arrival."""
    if acks not in {"1", "all", "-1"}:
        raise typer.BadParameter(f"--acks {acks}: expected 1 or all")
    with nodes(bootstrap, lasting=True) as cluster:
        cluster.check_leaders(topic)
        run, latencies = end_to_end.measured(
            cluster, topic, num_records=num_records, record_size=record_size, acks=1 if acks == "1" else -1
        )
    _report("there and back", run, latencies, _OWN)


def _report(what: str, run: stats.MeasuredRun, latencies: dict[str, float], library: str) -> None:
    line = f"{stats.in_words(what, run, latencies)}\n{stats.of_client(library, run)}"
    fields = stats.data(run, latencies, library)
    show([fields], {}, data=fields | {"sentence": line}, text=lambda: say(line))
