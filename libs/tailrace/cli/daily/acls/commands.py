"""`tailrace acl list|create|delete`, with the options of kafka-acls.sh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Annotated, Final, TypeVar

import typer

from tailrace.access.acls import Acl, AclPermission, PatternType
from tailrace.access.filters import AclFilter
from tailrace.access.resources import AclOperation
from tailrace.cli.daily.acls.bindings import AclOptionsError, AclRules, Resources, acls_of, filters_of
from tailrace.cli.daily.connection import Bootstrap, counted, say
from tailrace.cli.daily.nodes import EVERY_CODE, Nodes, nodes
from tailrace.cli.daily.output import is_json, show
from tailrace.cli.daily.refusals import RefusedError, lines
from tailrace.net.authorization import acl_messages
from tailrace.wire.response_errors import response_errors

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="ACLs: who may do what, and from where."
)
_Kind = TypeVar("_Kind", bound=IntEnum)
_AT_ONCE: Final = 1000
Topics = Annotated[list[str] | None, typer.Option("--topic", help="may be repeated; * is every topic")]
Groups = Annotated[list[str] | None, typer.Option("--group", help="consumer group; may be repeated")]
Cluster = Annotated[bool, typer.Option("--cluster", help="the cluster itself")]
TransactionalIds = Annotated[list[str] | None, typer.Option("--transactional-id", help="may be repeated")]
Tokens = Annotated[list[str] | None, typer.Option("--delegation-token", help="may be repeated")]
Users = Annotated[list[str] | None, typer.Option("--user-principal", help="a user as the resource; may be repeated")]
Pattern = Annotated[str, typer.Option("--resource-pattern-type", help="literal or prefixed; to list also any, match")]
Operations = Annotated[list[str] | None, typer.Option("--operation", help="read, write, …; may be repeated")]
Principals = Annotated[list[str] | None, typer.Option("--principal", help="User:NAME; may be repeated")]


@app.command("list")
def list_acls(
    topics: Topics = None,
    groups: Groups = None,
    cluster: Cluster = False,
    transactional_ids: TransactionalIds = None,
    tokens: Tokens = None,
    users: Users = None,
    pattern: Pattern = "any",
    principals: Principals = None,
    operations: Operations = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Every ACL, or those of these resources and principals; `match` finds all that count for a name."""
    resources = _resources(topics, groups, cluster, transactional_ids, tokens, users, pattern)
    filters = filters_of(resources, principals or (), map(_operation, operations or ()))
    with nodes(bootstrap) as asked:
        found = dict.fromkeys(acl for wanted in filters for acl in _described(asked, wanted))
    _show(sorted(found, key=_texts))


@app.command("create")
def create(
    allowed: Annotated[list[str] | None, typer.Option("--allow-principal", help="User:NAME; may be repeated")] = None,
    denied: Annotated[list[str] | None, typer.Option("--deny-principal", help="User:NAME; may be repeated")] = None,
    allowed_hosts: Annotated[list[str] | None, typer.Option("--allow-host", help="address or range")] = None,
    denied_hosts: Annotated[list[str] | None, typer.Option("--deny-host", help="address or range")] = None,
    operations: Annotated[list[str] | None, typer.Option("--operation", help="default: all; may be repeated")] = None,
    producer: Annotated[bool, typer.Option("--producer", help="write, describe and create topics")] = False,
    consumer: Annotated[bool, typer.Option("--consumer", help="read topics, as a member of the groups")] = False,
    idempotent: Annotated[bool, typer.Option("--idempotent", help="with --producer: idempotent_write")] = False,
    topics: Topics = None,
    groups: Groups = None,
    cluster: Cluster = False,
    transactional_ids: TransactionalIds = None,
    tokens: Tokens = None,
    users: Users = None,
    pattern: Pattern = "literal",
    bootstrap: Bootstrap = None,
) -> None:
    """Allow or deny principals something; what is there already stays."""
    resources = _resources(topics, groups, cluster, transactional_ids, tokens, users, pattern)
    rules = AclRules(
        tuple(allowed or ()),
        tuple(denied or ()),
        tuple(allowed_hosts or ()),
        tuple(denied_hosts or ()),
        tuple(map(_operation, operations or ())),
        producer,
        consumer,
        idempotent,
    )
    try:
        acls = acls_of(resources, rules)
    except AclOptionsError as wrong:
        raise typer.BadParameter(str(wrong)) from None
    with nodes(bootstrap) as asked:
        for at in range(0, len(acls), _AT_ONCE):
            _create(asked, acls[at : at + _AT_ONCE])
    _show(acls)


@app.command("delete")
def delete(
    topics: Topics = None,
    groups: Groups = None,
    cluster: Cluster = False,
    transactional_ids: TransactionalIds = None,
    tokens: Tokens = None,
    users: Users = None,
    pattern: Pattern = "literal",
    principals: Principals = None,
    operations: Operations = None,
    permission: Annotated[str, typer.Option("--permission", help="allow or deny; default: both")] = "any",
    host: Annotated[str | None, typer.Option("--host", help="as the ACL has it")] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Take ACLs away: of resources, of principals, or both. It shows what is gone."""
    resources = _resources(topics, groups, cluster, transactional_ids, tokens, users, pattern)
    if not list(resources) and not principals:
        raise typer.BadParameter("which? --principal, or a resource: --topic, --group, --cluster, …")
    kind = _named(AclPermission, permission, "--permission")
    filters = filters_of(resources, principals or (), map(_operation, operations or ()), kind, host)
    with nodes(bootstrap) as asked:
        gone = dict.fromkeys(_delete(asked, filters))
    _show(sorted(gone, key=_texts))
    if not is_json():
        say(f"deleted {counted(len(gone), 'ACL')}", err=True)


def _resources(
    topics: list[str] | None,
    groups: list[str] | None,
    cluster: bool,
    transactional_ids: list[str] | None,
    tokens: list[str] | None,
    users: list[str] | None,
    pattern: str,
) -> Resources:
    return Resources(
        tuple(topics or ()),
        tuple(groups or ()),
        cluster,
        tuple(transactional_ids or ()),
        tuple(tokens or ()),
        tuple(users or ()),
        _named(PatternType, pattern, "--resource-pattern-type"),
    )


def _operation(name: str) -> AclOperation:
    return _named(AclOperation, name, "--operation")


def _named(of: type[_Kind], name: str, option: str) -> _Kind:
    """A word of Kafka's in any case, as kafka-acls.sh writes it (DescribeConfigs) and as the protocol does."""
    wanted = name.replace("_", "").replace("-", "").lower()
    for one in of:
        if one.name.replace("_", "").lower() == wanted and one:
            return one
    words = ", ".join(one.name.lower() for one in of if one)
    raise typer.BadParameter(f"{option} {name}: it is one of {words}")


def _described(cluster: Nodes, wanted: AclFilter) -> Iterator[Acl]:
    return acl_messages.described(cluster.ask(acl_messages.description(wanted), acl_messages.VERSION))


def _create(cluster: Nodes, acls: Sequence[Acl]) -> None:
    request = acl_messages.creation(acls)
    answer = cluster.ask(request, acl_messages.VERSION, handled=EVERY_CODE)
    errors = response_errors(request.API_KEY, answer)
    if refused := [error._replace(names=(" ".join(_texts(acls[int(error.names[0])])),)) for error in errors]:
        raise RefusedError(lines(refused))


def _delete(cluster: Nodes, filters: Sequence[AclFilter]) -> Iterator[Acl]:
    return acl_messages.deleted(cluster.ask(acl_messages.deletion(filters), acl_messages.VERSION))


def _texts(acl: Acl) -> tuple[str, ...]:
    """The columns of an ACL."""
    kinds = (acl.pattern_type, acl.permission, acl.operation)
    pattern, permission, operation = (kind.name.lower() for kind in kinds)
    return acl.resource_type.name.lower(), acl.name, pattern, acl.principal, acl.host, permission, operation


_COLUMNS: Final = ("resource_type", "resource_name", "pattern_type", "principal", "host", "permission", "operation")


_KINDS: Final = ("resource_type", "pattern_type", "permission", "operation")  # words; in capitals as in the REST API


def _show(acls: Sequence[Acl]) -> None:
    rows = [dict(zip(_COLUMNS, _texts(acl), strict=True)) for acl in acls]
    data = [row | {key: row[key].upper() for key in _KINDS} for row in rows]
    show(rows, {key: key.replace("_", " ") for key in _COLUMNS}, data=data)
