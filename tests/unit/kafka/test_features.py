"""Which finalized levels this version can work with."""

import pytest

from tailrace.kafka.features import INITIAL, SUPPORTED, TRANSACTION_VERSION, beyond


@pytest.mark.parametrize("features", [{}, dict(INITIAL), {TRANSACTION_VERSION: 0}])
def test_a_cluster_of_this_version_or_an_older_one_is_understood(features: dict[str, int]) -> None:
    assert beyond(features) is None


def test_a_level_and_a_feature_of_a_newer_version_are_named() -> None:
    level = SUPPORTED[TRANSACTION_VERSION].highest + 1
    assert f"{TRANSACTION_VERSION} is at level {level}" in str(beyond({**INITIAL, TRANSACTION_VERSION: level}))
    assert "share.version is at level 1, and this version of Tailrace does not know it" in str(
        beyond({"share.version": 1})
    )
