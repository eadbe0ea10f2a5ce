"""Exceptions that a service has lost: asyncio logs each future and task whose exception is never looked at."""

from tailrace.testing import Cluster


def leaves_no_exception_behind(cluster: Cluster) -> None:
    """Fails where the log of the services, as far as it is written, shows one."""
    lines = cluster.log_path.read_text(errors="replace").splitlines()
    assert [line for line in lines if "never retrieved" in line] == []
