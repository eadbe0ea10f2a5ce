"""The file that holds a cluster's secret: made once, and the same for all roles on all hosts."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from tailrace.config import Config, ConfigError
from tailrace.net.authentication.proof import Secret
from tailrace.private_files import write_private

NAME = "cluster.secret"
_KEY = "internal.secret.file"
_BYTES_MIN = 32  # nobody tries all secrets of that length, if they were made at random


def read_secret(config: Config, data_dir: Path) -> Secret | None:
    """internal.secret.file; where unset, cluster.secret of the data directory. Raises ConfigError.

    None where no file was named and there is none: Unix sockets need none.
    """
    path = Path(config.internal_secret_file) if config.internal_secret_file else data_dir / NAME
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(4096).strip()
    except FileNotFoundError as missing:
        if not config.internal_secret_file:
            return None
        raise ConfigError(f"{_KEY}={path} cannot be read: {missing.strerror}") from None
    except OSError as error:
        raise ConfigError(f"{_KEY}: {path} cannot be read: {error.strerror}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigError(f"{_KEY}: {path} can be opened by others: `chmod 600 {path}` makes it private.")
    if len(key) < _BYTES_MIN:
        raise ConfigError(f"{_KEY}: {path} holds {len(key)} bytes, a secret has {_BYTES_MIN} or more.")
    return Secret(key)


def make_secret(data_dir: Path) -> None:
    """Writes a new secret into a data directory, unless there is one."""
    path = data_dir / NAME
    if path.exists():
        return
    write_private(path, f"{secrets.token_hex(32)}\n".encode())
