"""The settings of one role: flag over environment over file over default, every value checked when it is read.

Dynamic configs (KIP-226) lie above: a broker's own, then the cluster-wide default, then what was given at start.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tailrace.config import properties
from tailrace.config.definition import HIDDEN, ConfigDef, ConfigError, ConfigScope
from tailrace.config.definitions import DEFINITIONS
from tailrace.config.listener_keys import PREFIX, definition_of, split, variable_of
from tailrace.config.validators import Value
from tailrace.config.values import Values


@dataclass(frozen=True, slots=True)
class Given:
    """A value as somebody wrote it, and where."""

    text: str = field(repr=False)
    value: Value = field(repr=False)
    origin: str


Layer = Mapping[str, Given]
Texts = dict[str, tuple[str, str]]  # key -> what stands there, and where
# (text, names of config.providers, where it stands) -> the value. Raises ConfigError.
Resolve: TypeAlias = Callable[[str, Collection[str], str], str]
_PROVIDERS: Final = "config.providers"


def unresolved(text: str, providers: Collection[str], where: str) -> str:
    """The text as it stands: where no files are read."""
    return text


def environment_name(definition: ConfigDef) -> str:
    """`KAFKA_MIN_INSYNC_REPLICAS`; our own keys begin with TAILRACE_."""
    prefix = "TAILRACE_" if definition.scope is ConfigScope.OURS else "KAFKA_"
    return prefix + definition.attribute.upper()


_REFERENCE: Final = re.compile(r"\$\{[^}]*\}")  # to a value elsewhere, which is no secret itself
_BY_ENVIRONMENT = {environment_name(definition): definition.name for definition in DEFINITIONS.values()}
_DEFAULTS = {name: definition.default for name, definition in DEFINITIONS.items()}
_ATTRIBUTES = {name: definition.attribute for name, definition in DEFINITIONS.items()}


class Config(Values):
    """Values by attribute (`config.min_insync_replicas`) or by key; `warnings` are said once per start."""

    def __init__(
        self,
        static: Layer,
        warnings: tuple[str, ...] = (),
        dynamic_default: Layer | None = None,
        dynamic_broker: Layer | None = None,
        of_listeners: Mapping[str, Layer] | None = None,
    ) -> None:
        """of_listeners: by a listener's name in lower case, what stands over `static` for it."""
        self.static = static
        self.warnings = warnings
        self.of_listeners = of_listeners or {}
        self.dynamic_default: Layer = dynamic_default or {}
        self.dynamic_broker: Layer = dynamic_broker or {}
        effective = dict(_DEFAULTS)
        for layer in (static, self.dynamic_default, self.dynamic_broker):
            effective.update((name, given.value) for name, given in layer.items())
        self._effective = effective
        super().__init__({_ATTRIBUTES[name]: value for name, value in effective.items()})

    @classmethod
    def load(
        cls,
        role: str,
        file: str | None = None,
        environ: Mapping[str, str] | None = None,
        overrides: Mapping[str, str] | None = None,
        *,
        file_name: str = "server.properties",
        resolve: Resolve = unresolved,
    ) -> Config:
        """Reads all; `file` is the text of a .properties file. Raises ConfigError (one sentence) if a value is bad.

        An unknown key is an error in `overrides` (somebody just typed it) and a warning elsewhere.
        resolve: replaces references of config.providers.
        """
        warnings: list[str] = []
        layers = (
            _from_file(file or "", file_name, warnings),
            _from_environment(environ or {}, warnings),
            _from_overrides(overrides or {}),
        )
        providers: tuple[str, ...] = ()
        for layer in layers:
            if _PROVIDERS in layer:
                providers = tuple(name.strip() for name in layer[_PROVIDERS][0].split(",") if name.strip())
        static: dict[str, Given] = {}
        of_listeners: dict[str, dict[str, Given]] = {}
        for layer in layers:
            for name, (text, origin) in layer.items():
                whole = resolve(text, providers, f"{name} from {origin}") if providers else text
                listener, key = split(name) or ("", name)
                into = of_listeners.setdefault(listener, {}) if listener else static
                into[key] = _given(name, whole, origin)
        if names := not_honoured({name: given.text for name, given in static.items()}, DEFINITIONS):
            warnings.append(f"Set, but without effect in Tailrace yet: {', '.join(names)}.")
        if "process.roles" not in static and role in {"broker", "controller"}:
            static["process.roles"] = Given(role, (role,), "the role that was started")
        return cls(static, tuple(warnings), of_listeners=of_listeners)

    def for_listener(self, name: str) -> Config:
        """The same settings as they hold for one listener: listener.name.NAME.KEY stands over KEY."""
        own = self.of_listeners.get(name.lower(), {})
        return Config({**self.static, **own}, self.warnings, self.dynamic_default, self.dynamic_broker)

    def get(self, name: str) -> Value:
        """The effective value of a key; KeyError for a key that does not exist."""
        return self._effective[name]

    def with_dynamic(self, default: Mapping[str, str], broker: Mapping[str, str]) -> Config:
        """The same settings under other dynamic configs; what no longer parses is left out with a warning."""
        warnings: list[str] = []
        layers = [_dynamic_layer(source, warnings) for source in (default, broker)]
        return Config(self.static, (*self.warnings, *warnings), layers[0], layers[1], self.of_listeners)


OF_COMMANDS: Final = frozenset(
    {
        "TAILRACE_ADMIN",
        "TAILRACE_BOOTSTRAP",
        "TAILRACE_COMMAND_CONFIG",
        "TAILRACE_SCHEMA_REGISTRY",
        "TAILRACE_SCHEMA_REGISTRY_USER_INFO",
        "TAILRACE_TABLES",
        "TAILRACE_TIMEOUT",
    }
)
"""The environment variables of `tailrace COMMAND`: no configs, and no mistake where a service finds them."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """` Did you mean …?` with the nearest known name, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.75)
    return f" Did you mean {near[0]}?" if near else ""


def _given(name: str, text: str, origin: str) -> Given:
    definition = definition_of(name)
    assert definition is not None
    try:
        return Given(text, definition.parse(text), origin)
    except ConfigError:
        shown = HIDDEN if definition.sensitive else repr(text)
        raise ConfigError(
            f"{name}={shown} from {origin} is not a valid value: it must be {definition.allowed}."
        ) from None


def _from_file(text: str, file_name: str, warnings: list[str]) -> Texts:
    try:
        entries = properties.parse(text)
    except ValueError as error:
        raise ConfigError(f"{file_name} cannot be read: {error}.") from None
    layer: Texts = {}
    for name, (value, line) in entries.items():
        origin = f"{file_name}, line {line}"
        if definition_of(name) is not None:
            layer[name] = value, origin
        else:
            warnings.append(f"{name} from {origin} is not a config and is ignored.{suggestion(name, DEFINITIONS)}")
    return layer


def _from_environment(environ: Mapping[str, str], warnings: list[str]) -> Texts:
    layer: Texts = {}
    for variable in sorted(environ):
        if not variable.startswith(("KAFKA_", "TAILRACE_")):
            continue
        if variable in OF_COMMANDS:
            continue
        name = _BY_ENVIRONMENT.get(variable) or variable_of(variable)
        if name is not None and not environ[variable] and not _takes_nothing(name):
            continue  # as unset: what an image sets cannot be taken away in other ways
        if name is None:
            hint = suggestion(variable, _BY_ENVIRONMENT)
            warnings.append(f"The environment variable {variable} is not a config and is ignored.{hint}")
        else:
            layer[name] = environ[variable], f"the environment variable {variable}"
    return layer


def _takes_nothing(name: str) -> bool:
    """Whether an empty text is a value of the key."""
    definition = definition_of(name)
    assert definition is not None
    try:
        definition.parse("")
    except ConfigError:
        return False
    return True


def _from_overrides(overrides: Mapping[str, str]) -> Texts:
    layer: Texts = {}
    for name, text in overrides.items():
        definition = definition_of(name)
        if definition is None:
            raise ConfigError(f"{name} from --set is not a config.{suggestion(name, DEFINITIONS)}")
        if definition.is_secret(_REFERENCE.sub("", text)):
            variable = f"KAFKA_{name.replace('.', '_').upper()}" if name.startswith(PREFIX) else None
            raise ConfigError(
                f"{name} holds a secret, and every user of this machine can read a command line. Set it in the "
                f"environment variable {variable or environment_name(definition)}, or in the --config FILE of a role."
            )
        layer[name] = text, "--set"
    return layer


def _dynamic_layer(source: Mapping[str, str], warnings: list[str]) -> dict[str, Given]:
    layer: dict[str, Given] = {}
    for name, text in source.items():
        if name not in DEFINITIONS:
            continue  # listener.name.… and keys of newer versions: stored, described by nobody, used by nobody
        try:
            layer[name] = _given(name, text, "a dynamic config")
        except ConfigError as error:
            warnings.append(str(error))
    return layer


def not_honoured(texts: Mapping[str, str], definitions: Mapping[str, ConfigDef]) -> list[str]:
    """The keys that are set to something else than their default and have no effect yet."""
    return [
        name
        for name, text in texts.items()
        if (definition := definitions.get(name)) is not None
        and not definition.honoured
        and definition.parse(text) != definition.default
    ]
