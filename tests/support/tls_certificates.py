"""Fixtures: one authority for a whole run, a server's certificate and a client's.

A test that signs more gives a name of its own: a name is a file.
"""

from __future__ import annotations

import pytest

from support.certificates import Authority, Pair


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def server(authority: Authority) -> Pair:
    return authority.sign("server", "/O=Example/CN=tailrace")


@pytest.fixture(scope="session")
def alice(authority: Authority) -> Pair:
    return authority.sign("alice", "/O=Example/OU=eng/CN=alice")
