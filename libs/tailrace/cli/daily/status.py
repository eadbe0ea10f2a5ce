"""`tailrace status`: this machine's processes, from the run files, and the cluster, from the gateway's REST API."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Annotated, Any

import typer

from tailrace.cli.daily.connection import (
    Bootstrap,
    ClusterAddress,
    cluster_address,
    command_settings,
    listens,
    say,
)
from tailrace.cli.daily.deadline import Deadline
from tailrace.cli.daily.nodes import Nodes, nodes
from tailrace.cli.daily.output import is_json, show
from tailrace.cli.daily.refusals import RefusedError
from tailrace.kafka.resources import ConfigResource
from tailrace.net.address import Address
from tailrace.runtime.clock import SystemClock
from tailrace.runtime.run_files import RunFile
from tailrace.wire.messages import DescribeClusterRequest, DescribeConfigsRequest

NOT_RUNNING = 3
ANSWER_SECONDS = 10
_ADMIN_PORT = "admin.port"
_NAMED_MAX = 8
_COUNTS = (
    ("offline", "offline_partitions"),
    ("under min ISR", "under_min_isr_partitions"),
    ("under-replicated", "under_replicated_partitions"),
    ("not led by their preferred replica", "preferred_replica_imbalance"),
    ("being reassigned", "reassigning_partitions"),
)
_NOT_HEALTHY = ("offline_partitions", "under_min_isr_partitions", "under_replicated_partitions")


Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="of `up`; wins over --bootstrap")]
AdminUrl = Annotated[
    str | None,
    typer.Option("--admin", metavar="URL", envvar="TAILRACE_ADMIN", help="a gateway's REST API; wins over both"),
]


def status(data: Data = None, admin: AdminUrl = None, bootstrap: Bootstrap = None) -> None:
    """Show a cluster on one screen; status 0 if all is ready and every replica is in sync, 1 if not, 3 if none runs.

    Not ready are also: a process that died, a broker that is fenced or shuts down, producers that a full disk refuses,
    a disk that failed, and a controller that does not answer.
    """
    found = cluster_of(bootstrap, data)
    processes = [] if admin or found.data_dir is None else run_files(found.data_dir)
    running = any(file.is_running() for file in processes)
    if not running and not admin and found.data_dir is not None:
        elsewhere = "" if data else f", and nothing listens at {found.bootstrap}"
        names = "--data or TAILRACE_DATA_DIR names another directory, --bootstrap or TAILRACE_BOOTSTRAP another cluster"
        say(f"Nothing runs on {found.data_dir}{elsewhere}. `tailrace up` starts a cluster; {names}.")
        raise typer.Exit(NOT_RUNNING)
    cluster, why = asked(admin or admin_of(found), below="status")
    processes = expected(processes, cluster)
    shown = [_process(file) for file in processes]
    if not is_json():
        for line in rendered(cluster) if cluster else [why]:
            say(line)
        if running:
            say()
    if is_json() or running:
        columns = {key: key for key in ("process", "pid", "ready", "since", "addresses")}
        show(shown, columns, data={"cluster": cluster, "processes": shown})
    if not healthy(cluster) or not all(file.ready and file.is_running() for file in processes):
        raise typer.Exit(1)


def cluster_of(bootstrap: str | None, data_dir: Path | None) -> ClusterAddress:
    """As cluster_address, but where nothing runs in the default directory what listens at Kafka's port, which is the
    cluster that other commands ask then.
    """
    found = cluster_address(bootstrap, data_dir)
    if data_dir is not None or found.data_dir is None:
        return found
    runs = any(file.is_running() for file in run_files(found.data_dir))
    return ClusterAddress(found.bootstrap) if not runs and listens(found.bootstrap) else found


def admin_of(cluster: ClusterAddress) -> str | None:
    """The address of the REST API of a cluster: from its processes here, else the port that its brokers' configs say.

    Raises typer.Exit where the cluster does not say it.
    """
    if cluster.data_dir is not None:
        return running_admin(cluster.data_dir)
    with nodes(cluster.bootstrap) as asking:
        known = asking.ask(DescribeClusterRequest(include_fenced_brokers=True, endpoint_type=1), 2)
        port = _admin_port(asking, [broker.broker_id for broker in known.brokers if not broker.is_fenced])
        if port is None:
            raise RefusedError(
                f"{cluster.bootstrap}: the cluster does not say where its admin port is ({_ADMIN_PORT}); --admin URL "
                "or TAILRACE_ADMIN names it"
            )
        scheme = "http" if command_settings().tls is None else "https"
        url = f"{scheme}://{Address(Address.parse(cluster.bootstrap.split(',')[0].strip()).host, port)}"
        found = cluster_id_of(url)
        if found not in {None, known.cluster_id}:
            raise RefusedError(
                f"{cluster.bootstrap} is cluster {known.cluster_id}, but {url} is of cluster {found}; --admin URL or "
                "TAILRACE_ADMIN names the right one"
            )
        return url


def _admin_port(asking: Nodes, brokers: list[int]) -> int | None:
    """What the first live broker's configs say; a broker of Apache Kafka has no such config."""
    row = DescribeConfigsRequest.DescribeConfigsResource
    for broker in brokers[:1]:
        asked_for = row(
            resource_type=ConfigResource.BROKER, resource_name=str(broker), configuration_keys=[_ADMIN_PORT]
        )
        for result in asking.ask(DescribeConfigsRequest(resources=[asked_for]), 4).results:
            for config in result.configs:
                if config.name == _ADMIN_PORT and config.value != "0":
                    return int(config.value)
    return None


def cluster_id_of(admin: str) -> str | None:
    """The cluster that an admin address is of; None where none answers as one."""
    try:
        (cluster,) = get_json(f"{admin}/v3/clusters")["data"]
        return str(cluster["cluster_id"])
    except (OSError, ValueError, KeyError, TypeError, HTTPException):
        return None


def healthy(cluster: dict[str, Any] | None) -> bool:
    """Whether a controller decides, all brokers live, all replicas are in sync, and all disks take records."""
    if cluster is None or cluster["controller"]["stale"] or cluster["offline_log_dirs"]:
        return False
    if any(cluster[key]["count"] for key in _NOT_HEALTHY) or any(row["state"] != "live" for row in cluster["brokers"]):
        return False
    return all(row["producers"] != "refused" for row in cluster["log_dirs_under_pressure"])


def expected(processes: list[RunFile], cluster: dict[str, Any] | None) -> list[RunFile]:
    """The processes that a healthy cluster needs: all but brokers that ended and were unregistered."""
    if cluster is None:
        return processes
    registered = {row["broker_id"] for row in cluster["brokers"]}
    return [file for file in processes if file.is_running() or file.role != "broker" or file.id in registered]


def run_files(data_dir: Path) -> list[RunFile]:
    """What the processes on a data directory say of themselves, and those that died."""
    files = [RunFile.read(path) for path in sorted((data_dir / "run").glob("*.json"))]
    return [file for file in files if file]


def running_admin(data_dir: Path) -> str | None:
    """The address of the REST API of a gateway that runs on a data directory, if one has an address yet."""
    return next((url for file in run_files(data_dir) if file.is_running() and (url := _admin_of(file))), None)


def _admin_of(file: RunFile) -> str | None:
    """What `up` announced once everything was ready, else a gateway's own word."""
    found = file.addresses.get("admin")
    return found if found is None or found.startswith("http") else f"http://{found}"


def _process(file: RunFile) -> dict[str, object]:
    return {
        "process": file.name,
        "pid": file.pid,
        "ready": "died" if not file.is_running() else "yes" if file.ready else "no",
        "since": f"{datetime.fromtimestamp(file.since_ms // 1000):%Y-%m-%d %H:%M:%S}",
        "addresses": ", ".join(f"{name} {address}" for name, address in file.addresses.items()),
    }


def asked(admin: str | None, *, below: str) -> tuple[dict[str, Any] | None, str]:
    """What an admin address answers at a path below its cluster, or None and a sentence that says why not."""
    if admin is None:
        return None, "The gateway cannot be asked: none runs there that has an admin address; --admin names one."
    try:
        (cluster,) = get_json(f"{admin.rstrip('/')}/v3/clusters")["data"]
        return get_json(f"{cluster['metadata']['self']}/{below}"), ""
    except OSError as error:
        return None, f"The gateway cannot be asked: {admin}: {getattr(error, 'reason', error)}."
    except (ValueError, KeyError, TypeError, HTTPException):
        return None, f"The gateway cannot be asked: {admin} is not the admin address of a gateway."


def get_json(url: str) -> Any:
    """What a gateway's REST API answers; raises OSError or ValueError."""
    patience_s = Deadline(SystemClock()).left_ms(ANSWER_SECONDS * 1000) / 1000
    encrypted, (tls, login) = url.startswith("https:"), command_settings()
    request = urllib.request.Request(url)
    if login is not None and (encrypted or tls is None):
        basic = base64.b64encode(f"{login.username}:{login.password}".encode()).decode()
        request.add_header("Authorization", f"Basic {basic}")
    with urllib.request.urlopen(request, timeout=patience_s, context=tls if encrypted else None) as answer:
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
