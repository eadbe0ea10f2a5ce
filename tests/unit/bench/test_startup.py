"""The shares of a core that an idle cluster takes."""

from pathlib import Path

from bench.startup import idle_shares
from tailrace.testing import Cluster


def test_over_no_time_there_is_no_share(tmp_path: Path) -> None:
    """`bench.scale --settle 0`: nothing is waited for, and nothing is divided by it."""
    assert idle_shares(Cluster(data_dir=tmp_path), 0) == {}
