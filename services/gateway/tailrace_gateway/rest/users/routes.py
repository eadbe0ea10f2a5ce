"""Users that log in with a password: of Kafka clients, of this API and of the console."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Response
from pydantic import AfterValidator, BaseModel, Field, SecretStr

from tailrace.access.scram import DEFAULT_ITERATIONS, MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS, ScramMechanism
from tailrace.net.sasl.user_messages import invalid_password
from tailrace_gateway.rest.limits import LimitedRoute
from tailrace_gateway.rest.models import Listing, Metadata, Rows, Text, Wanted
from tailrace_gateway.rest.scope import ClusterScope, InCluster
from tailrace_gateway.rest.users import credentials
from tailrace_gateway.rest.users.credentials import Iterations

router = APIRouter(route_class=LimitedRoute, prefix="/v3/clusters/{cluster_id}/users", tags=["User"])
_Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]


def _valid(password: SecretStr) -> SecretStr:
    if (why := invalid_password(password.get_secret_value())) is not None:
        raise ValueError(why)
    return password


Password = Annotated[SecretStr, AfterValidator(_valid)]
_Iterations = Annotated[int, Field(ge=MIN_ITERATIONS, le=MAX_ITERATIONS)]


class Credential(BaseModel):
    """What checks a password, without its keys."""

    mechanism: str
    iterations: int


class User(BaseModel):
    kind: Literal["TailraceUser"] = "TailraceUser"
    metadata: Metadata
    cluster_id: str
    user_name: str
    credentials: list[Credential]


class NewUser(Wanted):
    """A user to create; without mechanisms for both of SCRAM, so that any client logs in."""

    user_name: Text
    password: Password
    mechanisms: Annotated[Rows[_Mechanism], Field(min_length=1, max_length=2, default_factory=lambda: list(MECHANISMS))]
    iterations: _Iterations = DEFAULT_ITERATIONS


class NewPassword(Wanted):
    password: Password
    iterations: _Iterations = DEFAULT_ITERATIONS


def user_of(scope: ClusterScope, name: str, iterations: Iterations) -> User:
    """A user as a resource."""
    rows = [
        Credential(mechanism=ScramMechanism(of).label, iterations=count) for of, count in sorted(iterations.items())
    ]
    return User(metadata=scope.metadata("users", name), cluster_id=scope.cluster_id, user_name=name, credentials=rows)


@router.get("", response_model=Listing[User])
async def list_users(scope: InCluster) -> Response:
    """Lists all users with the mechanisms of their credentials."""
    return await scope.listed("TailraceUserList", ("users",), _users(scope, credentials.described(scope.backend)))


def _users(scope: ClusterScope, users: dict[str, Iterations]) -> Iterator[User]:
    for name in sorted(users):
        yield user_of(scope, name, users[name])


@router.post("", status_code=HTTPStatus.CREATED)
async def create_user(scope: InCluster, wanted: NewUser, response: Response) -> User:
    """Creates a user; 409 for one that exists. It may do nothing until an ACL allows it."""
    mechanisms = [MECHANISMS[one] for one in dict.fromkeys(wanted.mechanisms)]
    password = wanted.password.get_secret_value()
    await credentials.create(scope.backend, wanted.user_name, mechanisms, wanted.iterations, password)
    made = user_of(scope, wanted.user_name, dict.fromkeys(mechanisms, wanted.iterations))
    response.headers["Location"] = made.metadata.self_
    return made


@router.get("/{user_name}")
async def get_user(scope: InCluster, user_name: str) -> User:
    """Describes a user."""
    return user_of(scope, user_name, credentials.known(scope.backend, user_name))


@router.put("/{user_name}/password", status_code=HTTPStatus.NO_CONTENT)
async def set_password(scope: InCluster, user_name: str, wanted: NewPassword) -> None:
    """Changes the password of a user, in each of its credentials. Connections that are open stay."""
    mechanisms = [ScramMechanism(one) for one in sorted(credentials.known(scope.backend, user_name))]
    password = wanted.password.get_secret_value()
    await credentials.set_password(scope.backend, user_name, mechanisms, wanted.iterations, password)


@router.delete("/{user_name}", status_code=HTTPStatus.NO_CONTENT)
async def delete_user(scope: InCluster, user_name: str) -> None:
    """Deletes a user. Connections that are open stay."""
    await credentials.delete(scope.backend, user_name)
