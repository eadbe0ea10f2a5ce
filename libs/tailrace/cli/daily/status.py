"""`tailrace status`: this machine's processes, from the run files, and the cluster, from the gateway's REST API."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Annotated, Any

import typer

from tailrace.cli.daily.connection import Json, table
from tailrace.runtime.run_files import RunFile, default_data_dir

NOT_RUNNING = 3
ANSWER_SECONDS = 10
_NAMED_MAX = 8
_COUNTS = (
    ("offline", "offline_partitions"),
    ("under min ISR", "under_min_isr_partitions"),
    ("under-replicated", "under_replicated_partitions"),
    ("not led by their preferred replica", "preferred_replica_imbalance"),
    ("being reassigned", "reassigning_partitions"),
)


def status(
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="of `up`")] = None,
    admin: Annotated[
        str | None, typer.Option("--admin", metavar="URL", envvar="TAILRACE_ADMIN", help="a gateway's REST API")
    ] = None,
    as_data: Json = False,
) -> None:
    """Show a cluster on one screen; status 0 if all is ready and no partition is offline, 1 if not, 3 if none runs.

    Producers that a full disk refuses, a disk that failed, and a controller that does not answer, count as not ready.
    """
    data_dir = data or default_data_dir(os.environ)
    running = [] if admin else running_files(data_dir)
    if not running and not admin:
        typer.echo(f"Nothing runs on {data_dir}.")
        raise typer.Exit(NOT_RUNNING)
    cluster, why = asked(admin or running_admin(data_dir), below="status")
    if as_data:
        typer.echo(json.dumps({"cluster": cluster, "processes": [_process(file) for file in running]}))
    else:
        for line in rendered(cluster) if cluster else [why]:
            typer.echo(line)
        if running:
            typer.echo()
            table(
                ("process", "pid", "ready", "since", "addresses"), [tuple(_process(file).values()) for file in running]
            )
    if not healthy(cluster) or not all(file.ready for file in running):
        raise typer.Exit(1)


def healthy(cluster: dict[str, Any] | None) -> bool:
    """Whether somebody decides, every partition has a leader, and no disk has failed or refuses producers."""
    if cluster is None or cluster["controller"]["stale"] or cluster["offline_partitions"]["count"]:
        return False
    if cluster["offline_log_dirs"]:
        return False
    return all(row["producers"] != "refused" for row in cluster["log_dirs_under_pressure"])


def running_files(data_dir: Path) -> list[RunFile]:
    """What the processes that run on a data directory say of themselves."""
    files = [RunFile.read(path) for path in sorted((data_dir / "run").glob("*.json"))]
    return [file for file in files if file and file.is_running()]


def running_admin(data_dir: Path) -> str | None:
    """The address of the REST API of a gateway that runs on a data directory, if one has an address yet."""
    return next((url for file in running_files(data_dir) if (url := _admin_of(file))), None)


def _admin_of(file: RunFile) -> str | None:
    """What `up` announced once everything was ready, else a gateway's own word."""
    found = file.addresses.get("admin")
    return found if found is None or found.startswith("http") else f"http://{found}"


def _process(file: RunFile) -> dict[str, object]:
    return {
        "process": file.name,
        "pid": file.pid,
        "ready": "yes" if file.ready else "no",
        "since": f"{datetime.fromtimestamp(file.since_ms // 1000):%Y-%m-%d %H:%M:%S}",
        "addresses": ", ".join(f"{name} {address}" for name, address in file.addresses.items()),
    }


def asked(admin: str | None, *, below: str) -> tuple[dict[str, Any] | None, str]:
    """What an admin address answers at a path below its cluster, or None and a sentence that says why not."""
    if admin is None:
        return None, "The gateway cannot be asked: none runs here that has an admin address; --admin names one."
    try:
        (cluster,) = get_json(f"{admin.rstrip('/')}/v3/clusters")["data"]
        return get_json(f"{cluster['metadata']['self']}/{below}"), ""
    except OSError as error:
        return None, f"The gateway cannot be asked: {admin}: {getattr(error, 'reason', error)}."
    except (ValueError, KeyError, TypeError, HTTPException):
        return None, f"The gateway cannot be asked: {admin} is not the admin address of a gateway."


def get_json(url: str) -> Any:
    """What a gateway's REST API answers; raises OSError or ValueError."""
    with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as answer:
        return json.load(answer)


def rendered(status: dict[str, Any]) -> Iterator[str]:
    """A KafkaClusterStatus as lines."""
    controller = status["controller"]
    yield f"Cluster     {status['cluster_id']}"
    who = f"controller-{controller['controller_id']} at {controller['address']}"
    if controller["stale"]:
        who = f"NONE ANSWERS; the last was {who}"
    yield f"Controller  {who}, epoch {controller['controller_epoch']}, metadata offset {controller['metadata_offset']}"
    yield f"Partitions  {status['partition_count']} in {status['topic_count']} topics"
    for words, key in _COUNTS:
        if count := status[key]["count"]:
            yield f"            {count} {words}: {_named(status[key])}"
    if not any(status[key]["count"] for _, key in _COUNTS):
        yield "            all led by their preferred replica, all replicas in sync"
    yield from _moves(status["reassignments"])
    for row in status["log_dirs_under_pressure"]:
        left = f"{row['usable_bytes'] / 1e6:,.1f} of {row['total_bytes'] / 1e6:,.1f} MB left"
        yield f"Disk        broker {row['broker_id']} {row['log_dir']}: {left}, producers are {row['producers']}"
    for row in status["offline_log_dirs"]:
        yield f"Disk        broker {row['broker_id']} {row['log_dir']}: OFFLINE until the broker starts again"
    yield ""
    yield f"{'broker':>6}  {'state':<19}  {'rack':<8}  {'leaders':>7}  {'replicas':>8}  {'in sync':>7}"
    for row in status["brokers"]:
        counts = f"{row['leader_count']:>7}  {row['replica_count']:>8}  {row['in_sync_count']:>7}"
        yield f"{row['broker_id']:>6}  {row['state']:<19}  {row['rack'] or '':<8}  {counts}"


def _named(count: dict[str, Any]) -> str:
    names = [f"{row['topic_name']}-{row['partition_id']}" for row in count["partitions"][:_NAMED_MAX]]
    return ", ".join(names) + (" …" if count["count"] > len(names) else "")


def _moves(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    for row in rows[:_NAMED_MAX]:
        to, off = (",".join(map(str, row[key])) or "-" for key in ("adding_replicas", "removing_replicas"))
        total = row["total_bytes"]
        share = f", {row['copied_bytes'] * 100 // total} % of {total / 1e6:,.1f} MB" if total else ""
        yield f"  moving    {row['topic_name']}-{row['partition_id']} to {to}, off {off}{share}"
