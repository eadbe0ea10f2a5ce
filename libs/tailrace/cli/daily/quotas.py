"""`tailrace quota list|set|delete|top`; `tailrace quota [options]` runs a quota service (command.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import typer

from tailrace.cli.daily.connection import Bootstrap, given, pairs, say
from tailrace.cli.daily.nodes import EVERY_CODE, Nodes, nodes
from tailrace.cli.daily.output import done, show
from tailrace.cli.daily.refusals import RefusedError, lines
from tailrace.cli.daily.status import AdminUrl, Data, admin_of, asked, cluster_of
from tailrace.quota.entity import CLIENT_ID, IP, USER, text_of_name
from tailrace.wire import messages as m
from tailrace.wire.response_errors import response_errors

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Limits of clients, and who uses how much. With other arguments: run a quota service (`quota --set`).",
)
User = Annotated[str | None, typer.Option("--user", help="user name", callback=given)]
ClientId = Annotated[str | None, typer.Option("--client-id", help="client id", callback=given)]
Ip = Annotated[str | None, typer.Option("--ip", help="IP address", callback=given)]
DefaultUser = Annotated[bool, typer.Option("--default-user", help="every user without a quota of its own")]
DefaultClientId = Annotated[bool, typer.Option("--default-client-id", help="every client id without one")]
DefaultIp = Annotated[bool, typer.Option("--default-ip", help="every IP address without one")]
Entity = dict[str, str | None]
_EXACT, _DEFAULT = 0, 1  # match types of DescribeClientQuotas
_TOP_ROWS: Final = 20


def entity_of(
    user: str | None,
    client_id: str | None,
    ip: str | None,
    default_user: bool,
    default_client_id: bool,
    default_ip: bool,
) -> Entity:
    """By type: a name, or None for the default. A usage error for both of one type."""
    found: Entity = {}
    of_type = ((USER, user, default_user), (CLIENT_ID, client_id, default_client_id), (IP, ip, default_ip))
    for kind, name, is_default in of_type:
        if name is not None and is_default:
            raise typer.BadParameter(f"--{kind} and --default-{kind}: one of them")
        if name is not None or is_default:
            found[kind] = name
    return found


def needed(entity: Entity) -> Entity:
    """A usage error for an entity that names nobody."""
    if not entity:
        raise typer.BadParameter(
            "whose? --user, --client-id, --ip, or --default-user, --default-client-id, --default-ip"
        )
    return entity


def values_of(texts: dict[str, str]) -> dict[str, float]:
    """Numbers; whether they may be a quota's says the cluster."""
    found = {}
    for key, text in texts.items():
        try:
            found[key] = float(text)
        except ValueError:
            raise typer.BadParameter(f"{key}={text}: expected a number") from None
    return found


@app.command("list")
def list_quotas(
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    default_user: DefaultUser = False,
    default_client_id: DefaultClientId = False,
    default_ip: DefaultIp = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Every quota that was set, or those of the entities that have these parts."""
    wanted = entity_of(user, client_id, ip, default_user, default_client_id, default_ip)
    with nodes(bootstrap) as cluster:
        entries = _described(cluster, wanted, strict=False)
    lines = [
        {**{kind: _entity_name(of, kind) for kind in (USER, CLIENT_ID, IP)}, "name": key, "value": value}
        for of, values in entries
        for key, value in values.items()
    ]
    show(
        sorted(lines, key=lambda line: tuple(map(str, line.values()))),
        {USER: "user", CLIENT_ID: "client id", IP: "ip", "name": "quota", "value": "value"},
        cells={"value": _number},
        data=[{"entity": _parts(of), "values": values} for of, values in entries],
    )


def _parts(entity: Entity) -> list[dict[str, str | None]]:
    return [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]


def _described(cluster: Nodes, wanted: Entity, *, strict: bool) -> list[tuple[Entity, dict[str, float]]]:
    """Entities with their quotas: all that have these parts, or with strict the one that has no others."""
    component = m.DescribeClientQuotasRequest.ComponentData
    components = [
        component(entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name)
        for kind, name in wanted.items()
    ]
    answer = cluster.ask(m.DescribeClientQuotasRequest(components=components, strict=strict), 1)
    return [
        ({part.entity_type: part.entity_name for part in entry.entity}, {v.key: v.value for v in entry.values})
        for entry in answer.entries or ()
    ]


def _entity_name(entity: Entity, kind: str) -> str:
    return "" if kind not in entity else text_of_name(entity[kind])


@app.command("set")
def set_quotas(
    settings: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...")],
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    default_user: DefaultUser = False,
    default_client_id: DefaultClientId = False,
    default_ip: DefaultIp = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Limit an entity: producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate,
    connection_creation_rate."""
    entity = needed(entity_of(user, client_id, ip, default_user, default_client_id, default_ip))
    values = dict(values_of(pairs(settings)))
    with nodes(bootstrap) as cluster:
        _alter(cluster, entity, values)


@app.command("delete")
def delete_quotas(
    keys: Annotated[list[str] | None, typer.Argument(metavar="[KEY]...", help="default: all of the entity")] = None,
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    default_user: DefaultUser = False,
    default_client_id: DefaultClientId = False,
    default_ip: DefaultIp = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Take an entity's limits away; refused for one that it has not."""
    entity = needed(entity_of(user, client_id, ip, default_user, default_client_id, default_ip))
    with nodes(bootstrap) as cluster:
        has = {key: value for _, values in _described(cluster, entity, strict=True) for key, value in values.items()}
        if not has:
            raise RefusedError(f"{_named(entity)} has no quotas; `tailrace quota list` shows those that there are")
        if unknown := [key for key in keys or () if key not in has]:
            raise RefusedError(f"{_named(entity)} has no quota {unknown[0]!r}, but {', '.join(sorted(has))}")
        _alter(cluster, entity, dict.fromkeys(keys or has))


def _alter(cluster: Nodes, entity: Entity, values: Mapping[str, float | None]) -> None:
    entry = m.AlterClientQuotasRequest.EntryData
    row = entry(
        entity=[entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[
            entry.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
            for key, value in values.items()
        ],
    )
    request = m.AlterClientQuotasRequest(entries=[row], validate_only=False)
    answer = cluster.ask(request, 1, handled=EVERY_CODE)
    # An answer's row has no name of its own.
    if refused := [e._replace(names=(_named(entity),)) for e in response_errors(request.API_KEY, answer)]:
        raise RefusedError(lines(refused))
    done(f"changed quotas of {_named(entity)}", entity=_parts(entity))


def _named(entity: Entity) -> str:
    return ", ".join(f"{kind} {text_of_name(name)}" for kind, name in entity.items())


@app.command()
def top(
    data: Data = None,
    admin: AdminUrl = None,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="how many at most")] = _TOP_ROWS,
    bootstrap: Bootstrap = None,
) -> None:
    """Who uses most of their limit, and who is throttled now, over all gateways and brokers."""
    answer, why = asked(admin or admin_of(cluster_of(bootstrap, data)), below="quota-usage")
    if answer is None:
        say(why, err=True)
        raise typer.Exit(1)
    used = answer["data"][:rows]
    shown = [{**row, "share": f"{row['usage'] * 100 / row['limit']:.0f} %"} for row in used]
    show(shown, _USED, cells=_USED_CELLS, data=used)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 or value == int(value) else f"{value:.4g}"


_USED: Final = {
    "user": "user",
    "client_id": "client id",
    "ip": "ip",
    "broker_id": "broker",
    "name": "quota",
    "limit": "limit",
    "usage": "used",
    "share": "share",
    "throttled": "throttled",
    "throttle_time_ms": "throttle ms",
}
_USED_CELLS: Final = {
    **dict.fromkeys(("user", "client_id", "ip"), lambda name: name or ""),
    "broker_id": lambda broker: "" if broker is None else broker,
    "limit": _number,
    "usage": _number,
}
