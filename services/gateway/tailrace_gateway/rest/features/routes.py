"""Features: the levels that hold for the whole cluster (KIP-584)."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter

from tailrace.kafka.features import SUPPORTED
from tailrace_gateway.rest.errors import not_found, plain
from tailrace_gateway.rest.features import kafka
from tailrace_gateway.rest.features.models import Feature, FeatureChanges
from tailrace_gateway.rest.limits import LimitedRoute
from tailrace_gateway.rest.models import Listing
from tailrace_gateway.rest.scope import ClusterScope, InCluster

router = APIRouter(route_class=LimitedRoute, prefix="/v3/clusters/{cluster_id}", tags=["Feature"])


def feature_of(scope: ClusterScope, name: str) -> Feature:
    """A feature as a resource, or 404."""
    if (levels := SUPPORTED.get(name)) is None:
        raise not_found(f"Feature {name} cannot be found.")
    return Feature(
        metadata=scope.metadata("features", name),
        cluster_id=scope.cluster_id,
        feature_name=name,
        level=scope.image.features.get(name, 0),
        lowest_supported_level=levels.lowest,
        highest_supported_level=levels.highest,
    )


@router.get("/features")
async def list_features(scope: InCluster) -> Listing[Feature]:
    """Lists the features with their levels, and the levels that are supported."""
    data = [feature_of(scope, name) for name in sorted(SUPPORTED)]
    return Listing(kind="TailraceFeatureList", metadata=scope.listing("features"), data=data)


@router.get("/features/{feature_name}")
async def get_feature(scope: InCluster, feature_name: str) -> Feature:
    """Describes a feature."""
    return feature_of(scope, feature_name)


@router.post("/features:update", status_code=HTTPStatus.NO_CONTENT)
async def update_features(scope: InCluster, changes: FeatureChanges) -> None:
    """Sets levels of features, all or none; with validate_only nothing happens."""
    if len({one.feature_name for one in changes.data}) < len(changes.data):
        raise plain(HTTPStatus.BAD_REQUEST, "Bad Request: data: one row for each feature.")
    await kafka.update(scope.backend, changes.data, validate_only=changes.validate_only)
