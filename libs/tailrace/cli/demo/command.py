"""`tailrace demo` and `./run`: a cluster, this machine's log lines through it, and how to connect."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tailrace.cli.daily.refusals import RefusedError
from tailrace.cli.demo.failure import COPIES, prepared
from tailrace.cli.demo.job import GROUP, TOPIC, JobFailed, create_topic, run_job
from tailrace.cli.demo.lines import take
from tailrace.runtime.run_files import RunFile, default_data_dir
from tailrace.testing import Cluster, ClusterDied

CONNECT = """
Connect to it:
  Python   from kafka import KafkaConsumer
           for record in KafkaConsumer("{topic}", bootstrap_servers="{bootstrap}", auto_offset_reset="earliest"):
               print(record.value.decode())
  kcat     kcat -b {bootstrap} -t {topic} -C -o beginning -c 5
  Java     kafka-console-consumer.sh --bootstrap-server {bootstrap} --topic {topic} --from-beginning --max-messages 5
           kafka-consumer-groups.sh --bootstrap-server {bootstrap} --describe --group {group}
  Browser  {admin}
"""


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str], environ: dict[str, str]) -> int:
    """Returns 0 when all matched and the cluster was stopped by hand, 1 where something is wrong."""
    options, more = _parser(environ).parse_known_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    data_dir = Path(options.data).absolute()
    running = RunFile.read(data_dir / "run" / "up.json")
    try:
        if running and running.is_running() and running.ready:
            say(f"A cluster already runs on {data_dir} (pid {running.pid}); using it.")
            return _job(running.addresses["bootstrap"], running.addresses["admin"], data_dir, options)
        return _own_cluster(data_dir, options, more)
    except (JobFailed, ClusterDied, RefusedError, TimeoutError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _own_cluster(data_dir: Path, options: argparse.Namespace, more: Sequence[str]) -> int:
    say(f"Starting a cluster with {options.brokers} brokers on {data_dir} (its log: {data_dir / 'up.log'}) …")
    cluster = Cluster(
        brokers=options.brokers, data_dir=data_dir, port=options.port, admin_port=options.admin_port, arguments=more
    )
    with cluster:
        say(f"Ready: bootstrap {cluster.bootstrap}, admin {cluster.admin}")
        status = _job(cluster.bootstrap, cluster.admin, data_dir, options)
        if status or options.once:
            return status
        say("The cluster stays up; Ctrl-C stops it.")
        try:
            return cluster.wait()
        except KeyboardInterrupt:
            say("\nStopping …")
            return cluster.stop()


def _job(bootstrap: str, admin: str, data_dir: Path, options: argparse.Namespace) -> int:
    lines, distinct = take(options.lines)
    if not lines:
        sys.stderr.write("No log of this machine can be read, so there is nothing to stream.\n")
        return 1
    create_topic(bootstrap)
    failure = None if options.no_kill else prepared(bootstrap, data_dir, TOPIC, say)
    again = "" if distinct == len(lines) else f" ({distinct:,} different ones, repeated)"
    say(f"Streaming {len(lines):,} log lines of this machine{again} into {TOPIC}, reading them back in {GROUP}.")
    if failure is not None:
        say(f"Each line is kept {COPIES} times; half-way, a broker that leads is killed with lines on their way.")
    say(run_job(bootstrap, lines, failure))
    say(CONNECT.format(bootstrap=bootstrap, admin=admin, topic=TOPIC, group=GROUP))
    return 0


def _parser(environ: dict[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tailrace demo",
        description="Starts a cluster, or uses the one that runs, and streams this machine's log lines through it.",
        epilog="Other options are those of `tailrace up`.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--data", metavar="DIR", default=str(default_data_dir(environ)), help="default %(default)s")
    add("--port", type=int, default=9092, help="default %(default)s")
    add("--admin-port", type=int, default=8080, metavar="PORT", help="default %(default)s")
    add("--lines", type=int, default=100_000, metavar="N", help="default %(default)s")
    add("--brokers", type=int, default=COPIES, metavar="N", help="default %(default)s")
    add("--no-kill", action="store_true", help="kill no broker in the middle of the job (nor with fewer than 3)")
    add("--once", action="store_true", help="stop the cluster after the job")
    return parser
