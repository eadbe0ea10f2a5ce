"""The file that holds a cluster's secret: made once, and the same for all roles on all hosts.

Each line is a secret. A service logs in with the first one and takes all of them, so that a secret can be changed while
the services run. Connections that are open stay.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from tailrace.clock import Clock
from tailrace.config import Config, ConfigError
from tailrace.net.authentication.secret import Secret
from tailrace.private_files import write_private

NAME = "cluster.secret"
_KEY = "internal.secret.file"
LOOK_EVERY_MS = 1_000.0
_BYTES_MIN = 32  # too many to try them all, if they were made at random
_MOST = 8  # of one file
_FILE_BYTES = 4096


def secret_path(config: Config, data_dir: Path) -> Path:
    """internal.secret.file; where unset, cluster.secret of the data directory."""
    return Path(config.internal_secret_file) if config.internal_secret_file else data_dir / NAME


def read_secret(config: Config, data_dir: Path, service: str = "service") -> Secret | None:
    """The secret of a service, None where no file was named and there is none: Unix sockets need none.

    Raises ConfigError.
    """
    path = secret_path(config, data_dir)
    if not config.internal_secret_file and not path.exists():
        return None
    return Secret(*_read(path), service=service)


def _read(path: Path) -> list[bytes]:
    """The secrets of a file, one in each line."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            texts = [line.strip() for line in file.read(_FILE_BYTES).splitlines() if line.strip()]
    except OSError as error:
        raise ConfigError(f"{_KEY}: {path} cannot be read: {error.strerror}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigError(f"{_KEY}: {path} can be opened by others: `chmod 600 {path}` makes it private.")
    if not texts or min(map(len, texts)) < _BYTES_MIN:
        shortest = min(map(len, texts), default=0)
        raise ConfigError(
            f"{_KEY}: {path} holds a secret of {shortest} bytes, and each line is a secret of {_BYTES_MIN} or more."
        )
    if len(texts) > _MOST:
        raise ConfigError(f"{_KEY}: {path} holds {len(texts)} secrets, and at most {_MOST} are valid at a time.")
    return texts


class SecretWatch:
    """Takes up a secret that was changed on the disk, looked at once a second."""

    def __init__(self, path: Path, secret: Secret, clock: Clock, log: FilteringBoundLogger) -> None:
        self._path = path
        self._secret = secret
        self._clock = clock
        self._log = log

    async def run(self) -> None:
        """Until it is cancelled."""
        refused = ""
        while True:
            await self._clock.sleep(LOOK_EVERY_MS)
            try:
                texts = _read(self._path)
            except ConfigError as wrong:
                if str(wrong) != refused:
                    self._log.error("cluster secret not reloaded", why=str(wrong))
                refused = str(wrong)
                continue
            refused = ""
            if self._secret.replace(texts):
                self._log.info("cluster secret reloaded", secrets=self._secret.ids)


def make_secret(data_dir: Path) -> None:
    """Writes a new secret into a data directory, unless there is one."""
    path = data_dir / NAME
    if path.exists():
        return
    write_private(path, f"{secrets.token_hex(32)}\n".encode())
