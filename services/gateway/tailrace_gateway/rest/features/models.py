"""Features and their levels as JSON."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from tailrace_gateway.rest.models import Int16, Metadata, Rows, Text, Wanted


class Feature(BaseModel):
    """The level that holds in the cluster, 0 for off, and those that this version of Tailrace knows."""

    kind: Literal["TailraceFeature"] = "TailraceFeature"
    metadata: Metadata
    cluster_id: str
    feature_name: str
    level: int
    lowest_supported_level: int
    highest_supported_level: int


class FeatureChange(Wanted):
    """UNSAFE_DOWNGRADE lowers a level also where metadata may be lost."""

    feature_name: Text
    level: Annotated[Int16, Field(ge=0)]
    upgrade_type: Literal["UPGRADE", "SAFE_DOWNGRADE", "UNSAFE_DOWNGRADE"] = "UPGRADE"


class FeatureChanges(Wanted):
    data: Annotated[Rows[FeatureChange], Field(min_length=1)]
    validate_only: bool = False
