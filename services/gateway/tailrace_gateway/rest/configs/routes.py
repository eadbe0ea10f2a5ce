"""Configs of topics, of brokers and of all brokers together: the same five operations on three kinds of owners."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel

from tailrace.errors import ErrorCode
from tailrace.kafka.resources import ConfigResource, ConfigSource
from tailrace_gateway.rest.brokers.routes import live_broker
from tailrace_gateway.rest.configs import kafka as configs
from tailrace_gateway.rest.configs.models import (
    Config,
    ConfigChange,
    ConfigChanges,
    ConfigValue,
    ManyTopicConfigChanges,
    Synonym,
    TopicConfigFailure,
    TopicConfigFailures,
)
from tailrace_gateway.rest.errors import check, not_found, plain, translate, unknown_topic
from tailrace_gateway.rest.limits import LimitedRoute
from tailrace_gateway.rest.models import Listing
from tailrace_gateway.rest.scope import ClusterScope, InCluster, Part
from tailrace_gateway.rest.topics import kafka as topics
from tailrace_gateway.rest.topics.models import NewTopic

router = APIRouter(route_class=LimitedRoute, prefix="/v3/clusters/{cluster_id}", tags=["Config"])
ALL_BROKERS = ""
# Topics that are deleted meanwhile, or whose configs the user may not describe.
_LEFT_OUT: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_TOPICS_AT_ONCE: Final = 100  # some 4,000 configs, half a megabyte of an answer


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose configs: path is where their list is."""

    resource: ConfigResource
    name: str
    kind: Literal["KafkaTopicConfig", "KafkaBrokerConfig", "KafkaClusterConfig"]
    path: tuple[Part, ...]

    def names(self) -> dict[str, Any]:
        """The fields that say in each config whose it is."""
        if self.resource is ConfigResource.TOPIC:
            return {"topic_name": self.name}
        return {"config_type": "BROKER"} if self.name == ALL_BROKERS else {"broker_id": int(self.name)}


def topic_owner(scope: ClusterScope, topic_name: str) -> Owner:
    """A topic, or 404."""
    scope.topic(topic_name)
    return Owner(ConfigResource.TOPIC, topic_name, "KafkaTopicConfig", ("topics", topic_name, "configs"))


def broker_owner(scope: ClusterScope, broker_id: int) -> Owner:
    """A live broker, or 404."""
    live_broker(scope, broker_id)
    return Owner(ConfigResource.BROKER, str(broker_id), "KafkaBrokerConfig", ("brokers", broker_id, "configs"))


CLUSTER = Owner(ConfigResource.BROKER, ALL_BROKERS, "KafkaClusterConfig", ("broker-configs",))


def config_of(scope: ClusterScope, owner: Owner, row: configs.ConfigRow) -> Config:
    """One config as a resource; a sensitive value is never shown."""
    synonyms = [Synonym(name=s.name, value=s.value, source=ConfigSource(s.source).name) for s in row.synonyms]
    return Config(
        kind=owner.kind,
        metadata=scope.metadata(*owner.path, row.name),
        cluster_id=scope.cluster_id,
        name=row.name,
        value=None if row.is_sensitive else row.value,
        is_read_only=row.read_only,
        is_sensitive=row.is_sensitive,
        is_default=row.config_source == ConfigSource.DEFAULT_CONFIG,
        source=ConfigSource(row.config_source).name,
        synonyms=synonyms,
        **owner.names(),
    )


async def list_of(scope: ClusterScope, owner: Owner) -> Listing[Config]:
    """All configs of an owner."""
    rows = await configs.describe(scope.backend, owner.resource, owner.name)
    data = [config_of(scope, owner, row) for row in rows]
    return Listing(kind=f"{owner.kind}List", metadata=scope.listing(*owner.path), data=data)


async def one_of(scope: ClusterScope, owner: Owner, name: str) -> Config:
    """One config of an owner, or 404."""
    rows = await configs.describe(scope.backend, owner.resource, owner.name, [name])
    if not rows:
        raise not_found(f"Config {name} cannot be found.")
    return config_of(scope, owner, rows[0])


async def change(scope: ClusterScope, owner: Owner, *changes: ConfigChange) -> None:
    """Alters configs of an owner."""
    await configs.alter(scope.backend, owner.resource, owner.name, changes)


@router.get("/topics/-/configs", response_model=Listing[Config], response_class=Response)  # before any topic's name
async def list_all_topic_configs(scope: InCluster) -> Response:
    """Lists the configs of all topics of which the user may describe them, in order of the topics' names."""
    return await scope.streamed("KafkaTopicConfigList", ("topics", "-", "configs"), _of_all_topics(scope))


async def _of_all_topics(scope: ClusterScope) -> AsyncIterator[Iterator[BaseModel]]:
    names = sorted(scope.image.topics)
    for first in range(0, len(names), _TOPICS_AT_ONCE):
        wanted = names[first : first + _TOPICS_AT_ONCE]
        results = await configs.describe_all(scope.backend, ConfigResource.TOPIC, wanted)
        yield _configs_of(scope, dict(zip(wanted, results, strict=True)))


def _configs_of(scope: ClusterScope, results: Mapping[str, configs.Described]) -> Iterator[BaseModel]:
    for name, result in results.items():
        if result.error_code not in _LEFT_OUT:
            check(result.error_code, result.error_message)
            owner = topic_owner(scope, name)
            yield from (config_of(scope, owner, row) for row in configs.by_name(result))


@router.post(
    "/topics/-/configs:alter",
    status_code=HTTPStatus.NO_CONTENT,
    response_class=Response,
    responses={HTTPStatus.MULTI_STATUS: {"model": TopicConfigFailures}},
)
async def alter_all_topic_configs(scope: InCluster, changes: ManyTopicConfigChanges) -> Response:
    """Sets and resets configs of several topics; 207 names the topics that did not change."""
    wanted = {row.topic_name: row.configs for row in changes.data}
    if len(wanted) < len(changes.data):
        raise plain(HTTPStatus.BAD_REQUEST, "Bad Request: data: one row for each topic.")
    known = {name: rows for name, rows in wanted.items() if scope.image.topic(name) is not None}
    failed = {name: unknown_topic() for name in wanted if name not in known}
    results = (
        await configs.alter_all(scope.backend, ConfigResource.TOPIC, known, changes.validate_only) if known else []
    )
    for name, result in zip(known, results, strict=True):
        if result.error_code:
            failed[name] = translate(result.error_code, result.error_message)
    if not failed:
        return Response(status_code=HTTPStatus.NO_CONTENT)
    rows = [
        TopicConfigFailure(topic_name=name, error_code=failed[name].error_code, message=failed[name].message)
        for name in wanted
        if name in failed
    ]
    content = TopicConfigFailures(failures=rows).model_dump_json()
    return Response(content, HTTPStatus.MULTI_STATUS, media_type="application/json")


@router.get("/topics/{topic_name}/default-configs")
async def list_default_topic_configs(scope: InCluster, topic_name: str) -> Listing[Config]:
    """Lists the configs that a new topic of that name would have; 400 for a name that is taken."""
    made = await topics.create(scope.backend, NewTopic(topic_name=topic_name, validate_only=True))
    check(made.topic_config_error_code)
    here = ("topics", topic_name, "default-configs")
    data = [
        Config(
            kind="KafkaTopicConfig",
            metadata=scope.metadata(*here, row.name),
            cluster_id=scope.cluster_id,
            topic_name=topic_name,
            name=row.name,
            value=None if row.is_sensitive else row.value,
            is_read_only=row.read_only,
            is_sensitive=row.is_sensitive,
            is_default=row.config_source == ConfigSource.DEFAULT_CONFIG,
            source=ConfigSource(row.config_source).name,
            synonyms=[],
        )
        for row in sorted(made.configs, key=lambda row: str(row.name))
    ]
    return Listing(kind="KafkaTopicConfigList", metadata=scope.listing(*here), data=data)


@router.get("/topics/{topic_name}/configs", response_model_exclude_unset=True)
async def list_topic_configs(scope: InCluster, topic_name: str) -> Listing[Config]:
    """Lists a topic's configs."""
    return await list_of(scope, topic_owner(scope, topic_name))


@router.post("/topics/{topic_name}/configs:alter", status_code=HTTPStatus.NO_CONTENT)
async def alter_topic_configs(scope: InCluster, topic_name: str, changes: ConfigChanges) -> None:
    """Sets and resets several configs of a topic, all or none."""
    owner = topic_owner(scope, topic_name)
    await configs.alter(scope.backend, owner.resource, owner.name, changes.data, changes.validate_only)


@router.get("/topics/{topic_name}/configs/{name}", response_model_exclude_unset=True)
async def get_topic_config(scope: InCluster, topic_name: str, name: str) -> Config:
    """Describes a config of a topic."""
    return await one_of(scope, topic_owner(scope, topic_name), name)


@router.put("/topics/{topic_name}/configs/{name}", status_code=HTTPStatus.NO_CONTENT)
async def set_topic_config(scope: InCluster, topic_name: str, name: str, wanted: ConfigValue) -> None:
    """Sets a config of a topic."""
    await change(scope, topic_owner(scope, topic_name), ConfigChange(name=name, value=wanted.value))


@router.delete("/topics/{topic_name}/configs/{name}", status_code=HTTPStatus.NO_CONTENT)
async def reset_topic_config(scope: InCluster, topic_name: str, name: str) -> None:
    """Resets a config of a topic to the cluster's value."""
    await change(scope, topic_owner(scope, topic_name), ConfigChange(name=name, operation="DELETE"))


@router.get("/brokers/-/configs", response_model_exclude_unset=True)  # before any broker's id
async def list_all_broker_configs(scope: InCluster) -> Listing[Config]:
    """Lists the configs of every live broker."""
    owners = [broker_owner(scope, broker.broker_id) for broker in scope.image.live_brokers()]
    data = [row for owner in owners for row in (await list_of(scope, owner)).data]
    return Listing(kind="KafkaBrokerConfigList", metadata=scope.listing("brokers", "-", "configs"), data=data)


@router.get("/brokers/{broker_id}/configs", response_model_exclude_unset=True)
async def list_broker_configs(scope: InCluster, broker_id: int) -> Listing[Config]:
    """Lists a broker's configs."""
    return await list_of(scope, broker_owner(scope, broker_id))


@router.post("/brokers/{broker_id}/configs:alter", status_code=HTTPStatus.NO_CONTENT)
async def alter_broker_configs(scope: InCluster, broker_id: int, changes: ConfigChanges) -> None:
    """Sets and resets several configs of a broker, all or none."""
    owner = broker_owner(scope, broker_id)
    await configs.alter(scope.backend, owner.resource, owner.name, changes.data, changes.validate_only)


@router.get("/brokers/{broker_id}/configs/{name}", response_model_exclude_unset=True)
async def get_broker_config(scope: InCluster, broker_id: int, name: str) -> Config:
    """Describes a config of a broker."""
    return await one_of(scope, broker_owner(scope, broker_id), name)


@router.put("/brokers/{broker_id}/configs/{name}", status_code=HTTPStatus.NO_CONTENT)
async def set_broker_config(scope: InCluster, broker_id: int, name: str, wanted: ConfigValue) -> None:
    """Sets a config of a broker."""
    await change(scope, broker_owner(scope, broker_id), ConfigChange(name=name, value=wanted.value))


@router.delete("/brokers/{broker_id}/configs/{name}", status_code=HTTPStatus.NO_CONTENT)
async def reset_broker_config(scope: InCluster, broker_id: int, name: str) -> None:
    """Resets a config of a broker."""
    await change(scope, broker_owner(scope, broker_id), ConfigChange(name=name, operation="DELETE"))


@router.get("/broker-configs", response_model_exclude_unset=True)
async def list_cluster_configs(scope: InCluster) -> Listing[Config]:
    """Lists what was set for all brokers."""
    return await list_of(scope, CLUSTER)


@router.post("/broker-configs:alter", status_code=HTTPStatus.NO_CONTENT)
async def alter_cluster_configs(scope: InCluster, changes: ConfigChanges) -> None:
    """Sets and resets several configs of all brokers, all or none."""
    await configs.alter(scope.backend, CLUSTER.resource, CLUSTER.name, changes.data, changes.validate_only)


@router.get("/broker-configs/{name}", response_model_exclude_unset=True)
async def get_cluster_config(scope: InCluster, name: str) -> Config:
    """Describes a config of all brokers."""
    return await one_of(scope, CLUSTER, name)


@router.put("/broker-configs/{name}", status_code=HTTPStatus.NO_CONTENT)
async def set_cluster_config(scope: InCluster, name: str, wanted: ConfigValue) -> None:
    """Sets a config of all brokers."""
    await change(scope, CLUSTER, ConfigChange(name=name, value=wanted.value))


@router.delete("/broker-configs/{name}", status_code=HTTPStatus.NO_CONTENT)
async def reset_cluster_config(scope: InCluster, name: str) -> None:
    """Resets a config of all brokers."""
    await change(scope, CLUSTER, ConfigChange(name=name, operation="DELETE"))
