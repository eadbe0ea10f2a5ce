"""`tailrace user reset-admin`: a new password for the first user, on the machine of a controller."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import typer

from tailrace.cli.daily.connection import say
from tailrace.cli.daily.output import done
from tailrace.cli.plan import socket_dir
from tailrace.cli.secure.client_files import FOLDER, USER
from tailrace.cli.secure.command import Data
from tailrace.cli.secure.first_user import FirstUserRefused, password_file, read_password, set_password
from tailrace.config import Config, ConfigError
from tailrace.config.hosts import WILDCARDS
from tailrace.net.address import Address
from tailrace.net.client import SaslLogin
from tailrace.private_files import write_private
from tailrace.runtime.run_files import RunFile, default_data_dir

_FILE_BYTES = 65_536


def reset_admin(data: Data = None) -> None:
    """Give the user `admin` a new random password; needs no login, but the rights to DIR of a running controller."""
    data_dir = (data or default_data_dir(os.environ)).expanduser().absolute()
    try:
        changed = asyncio.run(reset(data_dir, *controllers_of(data_dir)))
    except FirstUserRefused as refused:
        say(str(refused), err=True)
        raise typer.Exit(1) from None
    except OSError as error:
        say(f"{error.filename}: {error.strerror}.", err=True)
        raise typer.Exit(1) from None
    done(
        f"The user {USER} has a new password, in {password_file(data_dir)}.",
        user_name=USER,
        path=str(password_file(data_dir)),
    )
    for path in changed:
        done(f"{path} has it, too.", path=str(path))


def controllers_of(data_dir: Path) -> tuple[list[Address], SaslLogin | None]:
    """The Unix sockets of the controllers on this machine; else their TCP addresses, and the secret to log in with."""
    named = os.environ.get("TAILRACE_RUN_DIR")
    run_dir = Path(named) if named else socket_dir(data_dir, os.environ.get("XDG_RUNTIME_DIR"))
    if sockets := sorted(run_dir.glob("controller-*.sock")):
        return [Address(str(path), -1) for path in sockets], None
    from tailrace.net.authentication.secret_file import read_secret

    try:
        config = Config.load("controller", None, os.environ)
        secret = read_secret(config, data_dir, "tailrace-user")
    except ConfigError as wrong:
        raise FirstUserRefused(str(wrong)) from None
    if secret is None:
        return [], None
    files = [found for path in sorted(run_dir.glob("controller-*.json")) if (found := RunFile.read(path)) is not None]
    bound = [Address.parse(file.addresses["internal"]) for file in files if "internal" in file.addresses]
    others = [Address.parse(text) for text in config.controller_quorum_bootstrap_servers]
    return [*map(_reachable, bound), *others], secret


def _reachable(bound: Address) -> Address:
    """A listener of every address is reached by the loopback."""
    if bound.host not in WILDCARDS:
        return bound
    return Address("::1" if ":" in bound.host else "127.0.0.1", bound.port)


async def reset(data_dir: Path, controllers: list[Address], login: SaslLogin | None = None) -> list[Path]:
    """The files for clients in which the old password was replaced. Raises FirstUserRefused and OSError."""
    old = read_password(data_dir)
    new = await set_password(data_dir, controllers, login)
    changed = []
    for path in sorted((data_dir / FOLDER).iterdir()) if old else ():
        if path.is_file() and path.stat().st_size <= _FILE_BYTES and old and old.encode() in path.read_bytes():
            write_private(path, path.read_bytes().replace(old.encode(), new.encode()))
            changed.append(path)
    return changed
