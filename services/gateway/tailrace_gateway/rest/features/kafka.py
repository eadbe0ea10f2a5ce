"""Features: UpdateFeatures v2 (KIP-584, KIP-778)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tailrace.wire.messages import UpdateFeaturesRequest
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.errors import check
from tailrace_gateway.rest.features.models import FeatureChange

_TIMEOUT_MS: Final = 10_000
_TYPES: Final[Mapping[str, int]] = {"UPGRADE": 1, "SAFE_DOWNGRADE": 2, "UNSAFE_DOWNGRADE": 3}


async def update(backend: AdminBackend, changes: Sequence[FeatureChange], *, validate_only: bool) -> None:
    """Sets levels, all or none; they are in the image then."""
    row = UpdateFeaturesRequest.FeatureUpdateKey
    updates = [
        row(feature=one.feature_name, max_version_level=one.level, upgrade_type=_TYPES[one.upgrade_type])
        for one in changes
    ]
    request = UpdateFeaturesRequest(timeout_ms=_TIMEOUT_MS, feature_updates=updates, validate_only=validate_only)
    answer = await backend.ask_controller(request)
    check(answer.error_code, answer.error_message)
    if not validate_only:
        levels = {one.feature_name: one.level for one in changes}
        await backend.wait_for(
            lambda image: all(image.features.get(name, 0) == level for name, level in levels.items())
        )
