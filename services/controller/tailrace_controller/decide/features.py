"""Features: all levels that an UpdateFeatures names, or none, and which brokers know them (KIP-584, KIP-778).

Kafka's FeatureControlManager; its sentences, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.features import METADATA_VERSION, SECURITY_VERSION, SUPPORTED, UNNAMED, Levels
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import FeatureLevelRecord
from tailrace.wire.messages import BrokerRegistrationRequest, UpdateFeaturesRequest, UpdateFeaturesResponse
from tailrace_controller.decide.controller_result import ControllerResult


class UpgradeType(IntEnum):
    """Numbers as on the wire. Version 0 has none: its allow_downgrade has no effect, in Apache Kafka either."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


_TYPES: Final = frozenset(UpgradeType)


def update(
    image: MetadataImage, request: UpdateFeaturesRequest, controller_id: int
) -> ControllerResult[UpdateFeaturesResponse]:
    """Finalizes the levels; INVALID_UPDATE_VERSION for the whole request where one of them cannot be."""
    levels = dict(image.features)
    for asked in request.feature_updates:
        name, level = asked.feature, asked.max_version_level
        if why := _refusal(image, name, level, asked.upgrade_type, controller_id):
            raise ApiError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"The update failed for all features since the following feature had an error: {why}",
            )
        levels[name] = level
    result = UpdateFeaturesResponse.UpdatableFeatureResult
    results = [result(feature=asked.feature, error_code=0, error_message="NONE") for asked in request.feature_updates]
    changed = {name: level for name, level in levels.items() if level != image.features.get(name, 0)}
    records = () if request.validate_only else tuple(FeatureLevelRecord(*one) for one in changed.items())
    return ControllerResult(UpdateFeaturesResponse(error_code=0, error_message=None, results=results), records)


def _refusal(image: MetadataImage, name: str, level: int, kind: int, controller_id: int) -> str | None:
    """Why the level cannot be finalized, in Kafka's words and order."""
    current = image.features.get(name, 0)
    why = None
    if kind not in _TYPES:
        why = "The controller does not support the given upgrade type."
    elif level < 0:
        why = "A feature version cannot be less than 0."
    elif (unsupported := next(_unsupported(image, name, level, controller_id), None)) is not None:
        why = unsupported
    elif level < current and kind == UpgradeType.UPGRADE:
        why = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    elif level > current and kind != UpgradeType.UPGRADE:
        why = "Can't downgrade to a newer version."
    elif level < current and name == METADATA_VERSION:
        return f"Unsupported metadata.version downgrade from {current} to {level}. {_METADATA_DOWNGRADE[kind]}"
    elif level < current and name == SECURITY_VERSION:
        why = "The metadata log may hold users and ACLs, which older versions of Tailrace cannot read."
    return None if why is None else f"Invalid update version {level} for feature {name}. {why}"


_METADATA_DOWNGRADE: Final[Mapping[int, str]] = {
    UpgradeType.SAFE_DOWNGRADE: (
        "Refusing to perform the requested downgrade because it might delete metadata information."
    ),
    UpgradeType.UNSAFE_DOWNGRADE: "Unsafe metadata downgrade is not supported in this version.",
}


def _unsupported(image: MetadataImage, name: str, level: int, controller_id: int) -> Iterator[str]:
    """What does not know the level: this controller, then each registered broker."""
    mine = SUPPORTED.get(name)
    if mine is None:
        yield f"Feature {name} not found." if level == 0 else f"Local controller {controller_id} {_NOT_AT_ALL}"
    elif level not in mine:
        yield f"Local controller {controller_id} {_only(mine)}"
    for broker_id, broker in sorted(image.brokers.items()):
        levels = _supported(broker.features, name)
        if level not in levels:
            yield f"Broker {broker_id} {_NOT_AT_ALL if levels == _OFF else _only(levels)}"


_NOT_AT_ALL: Final = "does not support this feature."
_OFF: Final = Levels(0, 0)


def _only(levels: Levels) -> str:
    return f"only supports versions {levels.lowest}-{levels.highest}"


def check_broker(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    """Raises UNSUPPORTED_VERSION for a broker that does not know a level that is finalized."""
    for name, level in image.features.items():
        if level not in (levels := _supported(request.features, name)):
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {levels.lowest} and {levels.highest}, inclusive.",
            )


def _supported(features: Sequence[Any], name: str) -> Levels:
    """The levels that a broker registered with; a feature that it does not name can only be off."""
    if not features:
        return UNNAMED.get(name, _OFF)
    named = (one for one in features if one.name == name)
    return next((Levels(one.min_supported_version, one.max_supported_version) for one in named), _OFF)
