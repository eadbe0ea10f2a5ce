"""`up --secure`: a cluster with certificates, a first user and files for clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tailrace.access.scram import MECHANISMS
from tailrace.cli.secure import certificates, client_files, first_user
from tailrace.cli.secure.client_files import ClientAccess
from tailrace.clock import Clock
from tailrace.config import ConfigError
from tailrace.net.address import Address
from tailrace.net.authorization.opening import STANDARD

SECURED: Final = "SASL_SSL"


def settings_of(data_dir: Path) -> Mapping[str, str]:
    """The configs of every role, under those that are set otherwise; of the listeners' protocols nothing is said."""
    return {
        "sasl.enabled.mechanisms": ",".join(sorted(MECHANISMS, reverse=True)),
        "authorizer.class.name": STANDARD,
        "super.users": f"User:{client_files.USER}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.files_of(data_dir).server),
    }


class SecureCluster:
    """One data directory, and the hosts that its cluster listens on and is known by."""

    def __init__(self, data_dir: Path, listen: Sequence[str], advertised: Sequence[str], clock: Clock) -> None:
        """Makes the certificates. Raises ConfigError and OSError."""
        self._data_dir = data_dir
        self._names = certificates.names_for(listen, advertised)
        self._clock = clock
        self._files = certificates.files_of(data_dir)
        self._ensure()

    @property
    def command_config(self) -> Path:
        """The client settings of the first user, for commands and for the worker of tables."""
        return self._data_dir / client_files.FOLDER / client_files.JAVA

    def renew(self) -> str:
        """Renews the certificate if it is due; a sentence where something is to be said."""
        try:
            done = self._ensure()
        except (ConfigError, OSError) as wrong:
            return f"The certificate could not be renewed: {wrong}"
        return f"The certificate {self._files.server} was renewed; new connections get it." if done else ""

    def _ensure(self) -> str | None:
        return certificates.ensure(self._files, self._names, self._clock.wall_ms())

    async def open(self, controllers: Sequence[Address], bootstrap: str, admin: str) -> list[str]:
        """Makes the user if there is none, and the files of clients; the lines that say how to connect.

        Raises FirstUserRefused and OSError.
        """
        password = first_user.read_password(self._data_dir)
        if password is None:
            password = await first_user.set_password(self._data_dir, controllers)
        folder = self._data_dir / client_files.FOLDER
        access = ClientAccess(bootstrap, admin, folder / client_files.TRUST, client_files.USER, password)
        client_files.write(folder, access, self._files.trust.read_bytes())
        return [
            f"  Login      SASL_SSL with {client_files.MECHANISM}; the user {client_files.USER} has its password in "
            f"{first_user.password_file(self._data_dir)}",
            f"  Connect    tailrace --command-config {folder / client_files.JAVA} topic list -b {bootstrap}",
            f"             kafka-topics.sh --bootstrap-server {bootstrap} --command-config "
            f"{folder / client_files.JAVA} --list",
            f"             python {folder / client_files.KAFKA_PYTHON}",
            f"             curl -K {folder / client_files.CURL} {admin}/v3/clusters",
            f"  Add a user tailrace --command-config {folder / client_files.JAVA} user create NAME -b {bootstrap}",
            f"             and its rights by `acl create`; `user reset-admin` gives {client_files.USER} a new password",
        ]
