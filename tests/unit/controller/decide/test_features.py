"""Feature levels: Apache Kafka 4.3.1's codes, sentences and order, and which brokers know a level (KIP-584)."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from support.metadata import CLUSTER_ID, after, cluster
from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.features import GROUP_VERSION, INITIAL, SECURITY_VERSION, TRANSACTION_VERSION
from tailrace.metadata import records as r
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.replay import replay
from tailrace.metadata.snapshot import to_records
from tailrace.wire.messages import BrokerRegistrationRequest, UpdateFeaturesRequest
from tailrace_controller.commands.first_image import with_our_features
from tailrace_controller.decide import brokers, features

UP, SAFE, UNSAFE = 1, 2, 3
NEW = replace(cluster(0), features=dict(INITIAL))
KNOWN = (r.BrokerFeature(TRANSACTION_VERSION, 0, 2), r.BrokerFeature("metadata.version", 7, 25))
FAILED = "The update failed for all features since the following feature had an error: "


def asked(*rows: tuple[str, int, int], validate_only: bool = False) -> Any:
    row = UpdateFeaturesRequest.FeatureUpdateKey
    updates = [row(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in rows]
    return UpdateFeaturesRequest(timeout_ms=1000, feature_updates=updates, validate_only=validate_only)


def refusal(image: MetadataImage, *rows: tuple[str, int, int]) -> str:
    with pytest.raises(ApiError) as refused:
        features.update(image, asked(*rows), 0)
    assert refused.value.code == ErrorCode.INVALID_UPDATE_VERSION
    assert refused.value.message is not None
    return refused.value.message.removeprefix(FAILED)


def test_a_level_goes_down_and_up_again() -> None:
    down = features.update(NEW, asked((TRANSACTION_VERSION, 1, SAFE)), 0)
    assert down.records == (r.FeatureLevelRecord(TRANSACTION_VERSION, 1),)
    assert [(row.feature, row.error_code) for row in down.reply.results] == [(TRANSACTION_VERSION, 0)]
    image = after(NEW, *down.records)
    for level, kind in ((0, UNSAFE), (2, UP)):
        effects = features.update(image, asked((TRANSACTION_VERSION, level, kind)), 0)
        assert effects.records == (r.FeatureLevelRecord(TRANSACTION_VERSION, level),)


@pytest.mark.parametrize("kind", [UP, SAFE, UNSAFE])
def test_the_level_that_is_there_is_taken_and_changes_nothing(kind: int) -> None:
    effects = features.update(NEW, asked((TRANSACTION_VERSION, 2, kind)), 0)
    assert (effects.records, effects.reply.error_code) == ((), 0)


def test_validate_only_changes_nothing() -> None:
    assert features.update(NEW, asked((TRANSACTION_VERSION, 1, SAFE), validate_only=True), 0).records == ()


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            ("nope", 1, UP),
            "Invalid update version 1 for feature nope. Local controller 0 does not support this feature.",
        ),
        (("nope", 0, UNSAFE), "Invalid update version 0 for feature nope. Feature nope not found."),
        (
            (TRANSACTION_VERSION, 3, UP),
            "Invalid update version 3 for feature transaction.version. Local controller 0 only supports versions 0-2",
        ),
        (
            (TRANSACTION_VERSION, -1, SAFE),
            "Invalid update version -1 for feature transaction.version. A feature version cannot be less than 0.",
        ),
        (
            (TRANSACTION_VERSION, 1, UP),
            "Invalid update version 1 for feature transaction.version. Can't downgrade the version of this feature "
            "without setting the upgrade type to either safe or unsafe downgrade.",
        ),
        (
            (TRANSACTION_VERSION, 1, 4),
            "Invalid update version 1 for feature transaction.version. The controller does not support the given "
            "upgrade type.",
        ),
        (
            ("metadata.version", 20, SAFE),
            "Unsupported metadata.version downgrade from 25 to 20. Refusing to perform the requested downgrade because "
            "it might delete metadata information.",
        ),
        (
            ("metadata.version", 20, UNSAFE),
            "Unsupported metadata.version downgrade from 25 to 20. Unsafe metadata downgrade is not supported in this "
            "version.",
        ),
    ],
)
def test_what_kafka_refuses_is_refused_in_its_words(row: tuple[str, int, int], expected: str) -> None:
    assert refusal(NEW, row) == expected


def test_a_downgrade_does_not_go_up() -> None:
    image = replace(NEW, features={})
    assert refusal(image, (TRANSACTION_VERSION, 2, SAFE)).endswith("Can't downgrade to a newer version.")


def test_one_wrong_feature_refuses_all() -> None:
    assert "nope" in refusal(NEW, (TRANSACTION_VERSION, 1, SAFE), ("nope", 1, UP))


def test_a_level_that_a_registered_broker_does_not_know_is_refused() -> None:
    old = replace(after(cluster(1), *registration(1, KNOWN)), features={})  # broker 0 names no feature
    assert refusal(old, (TRANSACTION_VERSION, 2, UP)) == (
        "Invalid update version 2 for feature transaction.version. Broker 0 does not support this feature."
    )
    older_broker = registration(0, (r.BrokerFeature(TRANSACTION_VERSION, 0, 1),))
    older = replace(after(NEW, *older_broker), features={})
    assert refusal(older, (TRANSACTION_VERSION, 2, UP)).endswith("Broker 0 only supports versions 0-1")


def registration(broker_id: int, known: tuple[r.BrokerFeature, ...]) -> list[r.MetadataRecord]:
    return [r.RegisterBrokerRecord(broker_id, UUID(int=broker_id + 50), 100, features=known)]


def registering(*rows: tuple[str, int, int]) -> Any:
    feature = BrokerRegistrationRequest.Feature
    return BrokerRegistrationRequest(
        broker_id=5,
        cluster_id=CLUSTER_ID,
        incarnation_id=UUID(int=1),
        listeners=[],
        features=[feature(name=n, min_supported_version=low, max_supported_version=high) for n, low, high in rows],
    )


def test_acls_are_not_left_to_a_version_that_cannot_read_them() -> None:
    with pytest.raises(ApiError) as refused:
        features.update(NEW, asked((SECURITY_VERSION, 0, SAFE)), 0)
    assert refused.value.code == ErrorCode.INVALID_UPDATE_VERSION
    assert "may hold users and ACLs, which older versions of Tailrace cannot read" in str(refused.value.message)


def test_a_broker_that_does_not_know_a_finalized_level_may_not_register() -> None:
    def register(*rows: tuple[str, int, int], image: MetadataImage = NEW) -> Any:
        return brokers.register(image, registering(*rows), Config({}), is_connected=False)

    others = (
        ("metadata.version", 7, 25),
        ("eligible.leader.replicas.version", 1, 1),
        (GROUP_VERSION, 0, 1),
        (SECURITY_VERSION, 0, 1),
    )
    with pytest.raises(ApiError) as refused:
        register(*others, (TRANSACTION_VERSION, 0, 1))
    assert (refused.value.code, refused.value.message) == (
        ErrorCode.UNSUPPORTED_VERSION,
        "Unable to register because the broker does not support finalized version 2 of transaction.version. "
        "The broker wants a version between 0 and 1, inclusive.",
    )
    (record, *_) = register(*others, (TRANSACTION_VERSION, 0, 2)).records
    assert record.features[4] == r.BrokerFeature(TRANSACTION_VERSION, 0, 2)
    with pytest.raises(ApiError):
        register()
    named_later = (GROUP_VERSION, SECURITY_VERSION, TRANSACTION_VERSION)
    before_them = {name: level for name, level in INITIAL.items() if name not in named_later}
    assert register(image=replace(NEW, features=before_them)).records


def test_a_snapshot_keeps_levels_and_what_brokers_know() -> None:
    image = after(NEW, *registration(3, KNOWN))
    again = replay(MetadataImage(), to_records(image), image.offset, image.epoch)
    assert (again.features, again.brokers[3].features) == (INITIAL, KNOWN)


@pytest.mark.parametrize(("theirs", "ours"), [(None, None), (1, 1), (2, 2), (3, 2)])
def test_an_imported_cluster_keeps_its_level_of_transactions(theirs: int | None, ours: int | None) -> None:
    had = {"group.version": 1, "metadata.version": 30}
    image = with_our_features(replace(NEW, features=had if theirs is None else {**had, TRANSACTION_VERSION: theirs}))
    expected = {name: level for name, level in INITIAL.items() if name != TRANSACTION_VERSION}
    assert image.features == (expected if ours is None else {**expected, TRANSACTION_VERSION: ours})
