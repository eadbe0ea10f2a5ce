"""Creating, changing and deleting users: AlterUserScramCredentials v0 (KIP-554)."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus

from tailrace.access.scram import ScramMechanism
from tailrace.net.sasl.user_messages import deletions, upsertions
from tailrace.wire.apis import ApiKey
from tailrace.wire.messages import AlterUserScramCredentialsRequest
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.errors import check, not_found, plain

Iterations = Mapping[int, int]  # by mechanism


def described(backend: AdminBackend) -> dict[str, Iterations]:
    """All users with their credentials, as DescribeUserScramCredentials shows them, for those that may ask for it."""
    users = backend.cluster_image(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS).scram
    return {name: {of: one.iterations for of, one in records.items()} for name, records in users.items() if records}


def known(backend: AdminBackend, name: str) -> Iterations:
    """The credentials of a user, or 404."""
    found = described(backend).get(name)
    if found is None:
        raise not_found(f"The user {name} cannot be found.")
    return found


async def create(
    backend: AdminBackend, name: str, mechanisms: Sequence[ScramMechanism], iterations: int, password: str
) -> None:
    """Creates a user, or 409."""
    if name in described(backend):
        raise plain(HTTPStatus.CONFLICT, f"The user {name} exists. PUT of its password changes that.")
    await set_password(backend, name, mechanisms, iterations, password)
    await backend.wait_for(lambda image: name in image.scram)


async def set_password(
    backend: AdminBackend, name: str, mechanisms: Sequence[ScramMechanism], iterations: int, password: str
) -> None:
    """Sets the password of these mechanisms."""
    requests = await backend.run(lambda: list(upsertions(name, mechanisms, iterations, password, secrets.token_bytes)))
    await _ask(backend, requests)


async def delete(backend: AdminBackend, name: str) -> None:
    """Deletes all credentials of a user."""
    await _ask(backend, deletions(name, known(backend, name)))
    await backend.wait_for(lambda image: name not in image.scram)


async def _ask(backend: AdminBackend, requests: Iterable[AlterUserScramCredentialsRequest]) -> None:
    for request in requests:
        answer = await backend.ask_controller(request)
        for result in answer.results:
            check(result.error_code, result.error_message)
