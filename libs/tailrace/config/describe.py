"""DescribeConfigs entries: every config of a resource with its value, source and synonyms (KIP-226, KIP-569).

The order of precedence and the listing of synonyms are Apache Kafka's: all places that give a key a value, the deciding
one first. A broker key that stands over others (log.retention.ms over minutes and hours) lists theirs behind its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tailrace.config.config import Config
from tailrace.config.definition import ConfigDef, ConfigError, ConfigScope, Dynamic
from tailrace.config.definitions import (
    CLIENT_METRICS_DEFINITIONS,
    DEFINITIONS,
    DYNAMIC_DEFINITIONS,
    GROUP_DEFINITIONS,
    TOPIC_DEFINITIONS,
)
from tailrace.config.topic import inherited
from tailrace.kafka.resources import ConfigResource, ConfigSource


@dataclass(frozen=True, slots=True)
class SynonymEntry:
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config as a client sees it; a sensitive value is None. `type` 0 is unknown."""

    name: str
    value: str | None
    read_only: bool
    source: ConfigSource
    is_sensitive: bool
    type: int
    synonyms: tuple[SynonymEntry, ...]
    documentation: str | None


# The keys that stand over others, with what they stand over.
_CHAINS = {
    synonyms[0].name: tuple(synonym.name for synonym in synonyms)
    for definition in TOPIC_DEFINITIONS.values()
    if len(synonyms := definition.synonyms) > 1 and synonyms[0].name.startswith(("log.retention", "log.roll"))
}


def broker(config: Config, default: Mapping[str, str], own: Mapping[str, str]) -> list[ConfigEntry]:
    """Every config of one broker. `default` and `own` are the dynamic configs of resource "" and of this broker."""
    config = config.with_dynamic(default, own)
    entries = []
    for name, definition in DEFINITIONS.items():
        if definition.internal:
            continue
        synonyms = _broker_synonyms(name, config)
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
        read_only = definition.dynamic is Dynamic.READ_ONLY
        entries.append(_entry(definition, definition.text(config.get(name)), source, synonyms, read_only))
    entries += [_dynamic_only(name, own[name]) for name in own if name not in DEFINITIONS]
    return sorted(entries, key=lambda entry: entry.name)


def cluster_default(default: Mapping[str, str]) -> list[ConfigEntry]:
    """The dynamic configs of all brokers together (resource ""): only what is set."""
    entries = []
    for name, text in sorted(default.items()):
        definition = DEFINITIONS.get(name) or DYNAMIC_DEFINITIONS.get(name)
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        if definition is None:
            entries.append(_unknown(name, source))
        else:
            entries.append(
                _entry(
                    definition, text, source, [SynonymEntry(name, _shown(definition, text), source)], read_only=False
                )
            )
    return entries


def topic(overrides: Mapping[str, str], config: Config) -> list[ConfigEntry]:
    """Every config of one topic; `config` is the broker's with its dynamic configs (Config.with_dynamic)."""
    return [_topic_entry(name, overrides.get(name), config) for name in sorted(TOPIC_DEFINITIONS)]


def overridden(overrides: Mapping[str, str], config: Config) -> list[ConfigEntry]:
    """Of a topic's configs those that it sets itself: the others are the same for all topics."""
    return [_topic_entry(name, overrides[name], config) for name in overrides if name in TOPIC_DEFINITIONS]


def _topic_entry(name: str, override: str | None, config: Config) -> ConfigEntry:
    return _resource_entry(TOPIC_DEFINITIONS[name], override, ConfigSource.DYNAMIC_TOPIC_CONFIG, config)


def group(overrides: Mapping[str, str], config: Config) -> list[ConfigEntry]:
    """Every config of one group (KIP-848, KIP-932)."""
    return [
        _resource_entry(definition, overrides.get(name), ConfigSource.GROUP_CONFIG, config)
        for name, definition in sorted(GROUP_DEFINITIONS.items())
    ]


def client_metrics(overrides: Mapping[str, str], config: Config) -> list[ConfigEntry]:
    """Every config of one client metrics subscription (KIP-714)."""
    return [
        _resource_entry(definition, overrides.get(name), ConfigSource.CLIENT_METRICS_CONFIG, config)
        for name, definition in sorted(CLIENT_METRICS_DEFINITIONS.items())
    ]


def _resource_entry(
    definition: ConfigDef, override: str | None, own_source: ConfigSource, config: Config
) -> ConfigEntry:
    synonyms = _broker_synonyms(definition.synonyms[0].name, config) if definition.synonyms else []
    if not definition.synonyms and definition.scope is ConfigScope.GROUP:
        synonyms = [SynonymEntry(definition.name, definition.text(definition.default), ConfigSource.DEFAULT_CONFIG)]
    value = inherited(definition, config)
    if override is not None:
        try:
            value = definition.parse(override)
        except ConfigError:
            value = override  # written by a newer version: shown as it is
        synonyms = [SynonymEntry(definition.name, definition.text(value), own_source), *synonyms]
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return _entry(definition, definition.text(value), source, synonyms, read_only=False)


def _broker_synonyms(name: str, config: Config) -> list[SynonymEntry]:
    """All places that give a broker key a value. What another key gives alone is not listed, as in Apache Kafka."""
    names = _CHAINS.get(name, (name,))
    found = [
        SynonymEntry(each, _shown(DEFINITIONS[each], layer[each].text), source)
        for layer, source in (
            (config.dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (config.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (config.static, ConfigSource.STATIC_BROKER_CONFIG),
        )
        for each in names
        if each in layer
    ]
    for each in names:
        definition = DEFINITIONS[each]
        if definition.default is not None:
            text = _shown(definition, definition.text(definition.default))
            found.append(SynonymEntry(each, text, ConfigSource.DEFAULT_CONFIG))
    while found and found[0].name != name:
        del found[0]
    return found


def _entry(
    definition: ConfigDef, value: str | None, source: ConfigSource, synonyms: Sequence[SynonymEntry], read_only: bool
) -> ConfigEntry:
    return ConfigEntry(
        name=definition.name,
        value=_shown(definition, value),
        read_only=read_only,
        source=source,
        is_sensitive=definition.sensitive,
        type=int(definition.type.wire_type),
        synonyms=tuple(synonyms),
        documentation=definition.doc,
    )


def _shown(definition: ConfigDef, text: str | None) -> str | None:
    return None if definition.sensitive else text


def _dynamic_only(name: str, text: str) -> ConfigEntry:
    source = ConfigSource.DYNAMIC_BROKER_CONFIG
    definition = DYNAMIC_DEFINITIONS.get(name)
    if definition is None:
        return _unknown(name, source)
    return _entry(definition, text, source, [SynonymEntry(name, _shown(definition, text), source)], read_only=False)


def is_sensitive(kind: ConfigResource, name: str) -> bool:
    """Whether the value of a dynamic config is hidden. Only brokers have secrets; an unknown key may be one."""
    if kind is not ConfigResource.BROKER:
        return False
    definition = DEFINITIONS.get(name) or DYNAMIC_DEFINITIONS.get(name)
    return definition is None or definition.sensitive


def _unknown(name: str, source: ConfigSource) -> ConfigEntry:
    """A key nobody knows might be a secret: Apache Kafka hides its value too."""
    return ConfigEntry(name, None, True, source, True, 0, (SynonymEntry(name, None, source),), None)
