"""The user `admin`: made by the controller's Unix socket, which only the user that runs the cluster can open.

Over TCP the cluster's secret is asked for, which only that user can read.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tailrace.access.scram import DEFAULT_ITERATIONS, ScramMechanism
from tailrace.cli.secure.client_files import FOLDER, PASSWORD, USER
from tailrace.errors import ErrorCode
from tailrace.net.address import Address
from tailrace.net.client import Client, SaslLogin
from tailrace.net.sasl.user_messages import upsertions
from tailrace.private_files import private_folder, write_private
from tailrace.wire.messages import AlterUserScramCredentialsRequest

_PASSWORD_BYTES: Final = 24  # 32 characters
_ANSWER_MS: Final = 10_000


class FirstUserRefused(Exception):
    """The user could not be made; the text is a sentence."""


def password_file(data_dir: Path) -> Path:
    """Where the password is once the user exists."""
    return data_dir / FOLDER / PASSWORD


def read_password(data_dir: Path) -> str | None:
    """None before the user was made."""
    try:
        return password_file(data_dir).read_text().strip() or None
    except FileNotFoundError:
        return None


async def set_password(data_dir: Path, controllers: Sequence[Address], login: SaslLogin | None = None) -> str:
    """Gives the user a new random password; raises FirstUserRefused.

    The file is written when the cluster has acknowledged: after a crash in between a next start makes another one.
    """
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    mechanisms = (ScramMechanism.SCRAM_SHA_512,)
    for request in upsertions(USER, mechanisms, DEFAULT_ITERATIONS, password, secrets.token_bytes):
        await alter_user(controllers, request, login)
    path = password_file(data_dir)
    private_folder(path.parent)
    write_private(path, f"{password}\n".encode())
    return password


async def alter_user(
    controllers: Sequence[Address], request: AlterUserScramCredentialsRequest, login: SaslLogin | None = None
) -> None:
    """Asks the active controller among them, for one user; raises FirstUserRefused. login: of those over TCP."""
    why = "no controller runs here"
    for address in controllers:
        client = Client(address, "tailrace-up", login=login)
        try:
            answer = await client.ask(request, timeout_ms=_ANSWER_MS)
        except (ConnectionError, TimeoutError) as away:
            why = str(away) or f"{address} does not answer"
            continue
        finally:
            await client.close()
        (result,) = answer.results
        if result.error_code == ErrorCode.NONE:
            return
        why = result.error_message or ErrorCode(result.error_code).name
    raise FirstUserRefused(f"The user {request.upsertions[0].name} could not be given a password: {why}.")
