"""`tailrace config`: show and change what topics and brokers are set to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Final

import typer

from tailrace.cli.daily.connection import Bootstrap, pairs
from tailrace.cli.daily.nodes import Nodes, nodes
from tailrace.cli.daily.output import done, show
from tailrace.cli.daily.refusals import RefusedError
from tailrace.kafka.resources import ALL_BROKERS, ConfigResource, ConfigSource
from tailrace.net.address import Address
from tailrace.wire import messages as m

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="Configs of topics and brokers."
)
ResourceKind = Annotated[str, typer.Argument(help="topic, broker or broker-logger")]
Name = Annotated[str, typer.Argument(help="topic name, broker id, or `default` for all brokers")]
_TYPES: Final = {
    "topic": ConfigResource.TOPIC,
    "broker": ConfigResource.BROKER,
    "broker-logger": ConfigResource.BROKER_LOGGER,
}
_OF_A_BROKER: Final = frozenset({"broker", "broker-logger"})
_DEFAULT: Final = "default"  # as one types the name of ALL_BROKERS
_SET, _DELETE = 0, 1  # operations


def _resource(kind: str, name: str) -> tuple[int, str]:
    """Type and name as the protocol has them; usage errors for what can be neither."""
    if kind not in _TYPES:
        raise typer.BadParameter(f"{kind}: expected topic, broker or broker-logger")
    if kind == "broker" and name == _DEFAULT:
        return _TYPES[kind], ALL_BROKERS
    if kind in _OF_A_BROKER and not (name.isascii() and name.isdecimal()):
        default = f", or `{_DEFAULT}`" if kind == "broker" else ""
        raise typer.BadParameter(f"{kind} {name!r}: expected a broker id{default}")
    if not name:
        raise typer.BadParameter("expected a topic name")
    return _TYPES[kind], name


def _node(cluster: Nodes, kind: str, name: str) -> Address | None:
    """Whom to ask: a broker alone knows its own configs."""
    if kind not in _OF_A_BROKER or not name:
        return None
    for broker in cluster.brokers():
        if str(broker.broker_id) == name and not broker.fenced:
            return Address(broker.host, broker.port)
    raise RefusedError(f"{name} is not live; `tailrace broker list` names the brokers")


def _asked(resource_type: int, name: str, keys: list[str] | None) -> m.DescribeConfigsRequest.DescribeConfigsResource:
    return m.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=keys
    )


@app.command("show")
def show_configs(
    kind: ResourceKind,
    name: Name,
    everything: Annotated[bool, typer.Option("--all", help="defaults too")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Print what was changed, or everything."""
    resource_type, resource_name = _resource(kind, name)
    asked = _asked(resource_type, resource_name, None)
    with nodes(bootstrap) as cluster, _named(kind):
        answer = cluster.ask(m.DescribeConfigsRequest(resources=[asked]), 4, _node(cluster, kind, resource_name))
    entries = [entry for result in answer.results for entry in result.configs]
    shown = [
        entry
        for entry in sorted(entries, key=lambda entry: str(entry.name))
        if everything or entry.config_source != ConfigSource.DEFAULT_CONFIG
    ]
    show(
        [_data(entry) for entry in shown],
        {"name": "key", "value": "value", "source": "from"},
        cells={"value": lambda value: "" if value is None else value, "source": lambda text: text.lower()},
        most_chars=None,
    )


def _data(entry: m.DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult) -> dict[str, object]:
    """In the REST API's names."""
    return {
        "name": entry.name,
        "value": None if entry.is_sensitive else entry.value,
        "is_read_only": entry.read_only,
        "is_sensitive": entry.is_sensitive,
        "is_default": entry.config_source == ConfigSource.DEFAULT_CONFIG,
        "source": _source(entry.config_source).upper(),
    }


def _source(number: int) -> str:
    return ConfigSource(number).name.lower() if number in set(ConfigSource) else f"source {number}"


@app.command("set")
def set_configs(
    kind: ResourceKind,
    name: Name,
    settings: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...")],
    bootstrap: Bootstrap = None,
) -> None:
    """Change configs."""
    _alter(kind, name, dict(pairs(settings)), bootstrap)


@app.command()
def unset(
    kind: ResourceKind,
    name: Name,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...")],
    bootstrap: Bootstrap = None,
) -> None:
    """Go back to the defaults."""
    _alter(kind, name, dict.fromkeys(keys), bootstrap)


def _alter(kind: str, name: str, values: Mapping[str, str | None], bootstrap: str | None) -> None:
    """Sets keys, or with None unsets them."""
    resource_type, resource_name = _resource(kind, name)
    with nodes(bootstrap) as cluster, _named(kind):
        resource = m.IncrementalAlterConfigsRequest.AlterConfigsResource
        row = resource(
            resource_type=resource_type,
            resource_name=resource_name,
            configs=[
                resource.AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
                for key, value in values.items()
            ],
        )
        at = _node(cluster, kind, resource_name)
        _check_keys(cluster, kind, resource_name, values, at)
        cluster.ask(m.IncrementalAlterConfigsRequest(resources=[row], validate_only=False), 1, at)
    done(f"changed {kind} {name}", config_type=kind, entity_name=name)


def _check_keys(cluster: Nodes, kind: str, name: str, keys: Iterable[str], at: Address | None) -> None:
    """Kafka keeps any key of a broker, as a plugin may read it, and unsets any: a mistyped one would do nothing."""
    if kind == "broker" and not name:
        name = next((str(node.broker_id) for node in cluster.brokers() if not node.fenced), "0")
        at = _node(cluster, kind, name)
    answer = cluster.ask(m.DescribeConfigsRequest(resources=[_asked(_TYPES[kind], name, list(keys))]), 4, at)
    known = {entry.name for result in answer.results for entry in result.configs}
    if unknown := [key for key in keys if key not in known]:
        raise RefusedError(
            f"{name}: there is no {kind} config {unknown[0]!r}; `tailrace config show {kind} {name} --all` names them"
        )


@contextmanager
def _named(kind: str) -> Iterator[None]:
    """Says of what kind the resource is that was refused, and names all brokers as one types them."""
    try:
        yield
    except RefusedError as refused:
        text = str(refused)
        raise RefusedError(f"{kind} {_DEFAULT if text.startswith(f'{ALL_BROKERS}:') else ''}{text}") from None
