"""AlterUserScramCredentials (KIP-554): which users may log in with a password. Kafka's ScramControlManager."""

from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from tailrace.access.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism, credential_of
from tailrace.errors import ApiError, ErrorCode
from tailrace.kafka.features import SECURITY_VERSION
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import MetadataRecord, RemoveUserScramCredentialRecord, UserScramCredentialRecord
from tailrace.wire.messages import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from tailrace_controller.decide import record_text
from tailrace_controller.decide.controller_result import ControllerResult

_Deletion: TypeAlias = AlterUserScramCredentialsRequest.ScramCredentialDeletion
_Upsertion: TypeAlias = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
_Asked = TypeVar("_Asked", _Deletion, _Upsertion)

MOST_USERS: Final = 10_000
MOST_SALT_BYTES: Final = 128
MOST_PASSWORD_BYTES: Final = 128  # twice what PBKDF2 gives for SCRAM-SHA-512
_MECHANISMS: Final = frozenset(ScramMechanism)
_TWICE: Final = "A user credential cannot be altered twice in the same request"


def alter(
    image: MetadataImage, request: AlterUserScramCredentialsRequest
) -> ControllerResult[AlterUserScramCredentialsResponse]:
    """Sets and deletes credentials, one of each user; each user has its own error."""
    refused: dict[str, ApiError] = {}
    records: dict[str, MetadataRecord] = {}
    for deletion in request.deletions:
        _take(image, deletion, _removed, records, refused)
    for upsertion in request.upsertions:
        _take(image, upsertion, _set, records, refused)
    _refuse_too_many(image, records, refused)
    row = AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
    results = [row(user=name, error_code=ErrorCode.NONE, error_message=None) for name in records]
    results += [row(user=name, error_code=why.code, error_message=why.message) for name, why in refused.items()]
    return ControllerResult(AlterUserScramCredentialsResponse(results=results), tuple(records.values()))


def _take(
    image: MetadataImage,
    asked: _Asked,
    record_of: Callable[[MetadataImage, _Asked], MetadataRecord],
    records: dict[str, MetadataRecord],
    refused: dict[str, ApiError],
) -> None:
    """The first error of a user is its answer; a second change of it refuses both."""
    if asked.name in refused:
        return
    try:
        if records.pop(asked.name, None) is not None:
            raise ApiError(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
        record = record_of(image, asked)
        record_text.check([record], ErrorCode.UNACCEPTABLE_CREDENTIAL)
        records[asked.name] = record
    except ApiError as why:
        refused[asked.name] = why


def _check(image: MetadataImage, asked: _Deletion | _Upsertion) -> None:
    if not image.features.get(SECURITY_VERSION):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "The current metadata version does not support SCRAM")
    if not asked.name:
        raise _unacceptable("Username must not be empty")
    if asked.mechanism not in _MECHANISMS:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")


def _removed(image: MetadataImage, asked: _Deletion) -> RemoveUserScramCredentialRecord:
    _check(image, asked)
    if asked.mechanism not in image.scram.get(asked.name, {}):
        raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return RemoveUserScramCredentialRecord(asked.name, asked.mechanism)


def _set(image: MetadataImage, asked: _Upsertion) -> UserScramCredentialRecord:
    _check(image, asked)
    if asked.iterations < MIN_ITERATIONS:
        raise _unacceptable("Too few iterations")
    if asked.iterations > MAX_ITERATIONS:
        raise _unacceptable("Too many iterations")
    if not asked.salted_password:
        raise _unacceptable("Salted password must not be empty")
    if len(asked.salted_password) > MOST_PASSWORD_BYTES or len(asked.salt) > MOST_SALT_BYTES:
        raise _unacceptable(f"Salt or salted password has more than {MOST_SALT_BYTES} bytes")
    mechanism = ScramMechanism(asked.mechanism)
    assert isinstance(asked.salt, bytes) and isinstance(asked.salted_password, bytes)
    made = credential_of(mechanism, asked.salt, asked.salted_password, asked.iterations)
    return UserScramCredentialRecord(
        asked.name, mechanism, made.salt, made.stored_key, made.server_key, made.iterations
    )


def _unacceptable(why: str) -> ApiError:
    return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, why)


def _refuse_too_many(image: MetadataImage, records: dict[str, MetadataRecord], refused: dict[str, ApiError]) -> None:
    """Refuses the new users of a request that would make them more than MOST_USERS."""
    new = [name for name in records if name not in image.scram]
    if new and len(image.scram) + len(new) > MOST_USERS:
        for name in new:
            del records[name]
            refused[name] = ApiError(ErrorCode.POLICY_VIOLATION, f"A cluster has at most {MOST_USERS} users")
