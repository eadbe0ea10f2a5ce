"""The metadata log in a PostgreSQL that takes TLS and a password alone; the password stands in a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.certificates import Authority
from support.plugin import leave_out
from support.ports import HOST
from support.postgres import Postgres, binary
from tailrace.config import Config
from tailrace.runtime.config_providers import resolve
from tailrace_controller.metadata_log.lease_row import Candidate
from tailrace_controller.metadata_log.stored import ReplayPosition
from tailrace_controller.store import Store

PASSWORD = "a/b@c"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def strict(authority: Authority) -> Iterator[Postgres]:
    """A server that refuses what comes without TLS or without the password."""
    if binary("initdb") is None:
        leave_out("apt-get install postgresql")
    pair = authority.sign("server", "/CN=postgres")
    server = Postgres()
    try:
        server.start()
        server.query(f"CREATE ROLE tailrace SUPERUSER LOGIN PASSWORD '{PASSWORD}'")
        server.stop()
        (server.data / "pg_hba.conf").write_text("hostssl all tailrace all scram-sha-256\n")
        files = {"ssl_cert_file": pair.certificate, "ssl_key_file": pair.key}
        options = [word for name, file in files.items() for word in ("-c", f"{name}={server.own_copy(file)}")]
        server.start("-c", "ssl=on", *options)
        yield server
    finally:
        server.close()


def takes_the_lease(url: str) -> bool:
    store = Store(url, lambda: 0.0, lambda sentence: None)
    try:
        return store.take(Candidate(0), None, ReplayPosition()) is not None
    finally:
        store.close()


def test_the_password_of_a_file_and_tls_that_checks_the_servers_name(
    strict: Postgres, authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text(f"{HOST}:*:*:tailrace:{PASSWORD}\n")
    (tmp_path / "password").chmod(0o600)
    (tmp_path / "url-password").write_text("a%2Fb%40c\n")  # as a URL has it
    where, checks = f"{HOST}:{strict.port}/postgres", f"sslmode=verify-full&sslrootcert={authority.certificate}"
    by_passfile = f"postgresql://tailrace@{where}?{checks}&passfile={tmp_path}/password"
    by_provider = f"postgresql://tailrace:${{directory:{tmp_path}:url-password}}@{where}?{checks}"
    for url in (by_passfile, by_provider):
        settings = {"metadata.url": url, "config.providers": "directory"}
        config = Config.load("controller", overrides=settings, resolve=resolve)
        assert config.metadata_url is not None
        assert takes_the_lease(config.metadata_url)


@pytest.mark.parametrize("user", ["tailrace", "tailrace:wrong"])
def test_without_the_password_or_with_another_authority_nothing_is_read(
    strict: Postgres, tmp_path: Path, user: str
) -> None:
    other = Authority(tmp_path, "other")
    for certificate in (other.certificate, None):
        checks = "sslmode=disable" if certificate is None else f"sslmode=verify-full&sslrootcert={certificate}"
        with pytest.raises(Exception, match=r"certificate verify failed|no pg_hba.conf entry|password"):
            takes_the_lease(f"postgresql://{user}@{HOST}:{strict.port}/postgres?{checks}")
