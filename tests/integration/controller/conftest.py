"""One PostgreSQL server for all tests of the directory; each test gets it empty."""

from collections.abc import Iterator

import pytest

from support.plugin import leave_out
from support.postgres import Postgres, binary


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    if binary("initdb") is None:
        leave_out("apt-get install postgresql")
    with Postgres() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: Postgres) -> Postgres:
    """The server with an empty schema and nobody connected."""
    postgres_server.empty()
    return postgres_server
