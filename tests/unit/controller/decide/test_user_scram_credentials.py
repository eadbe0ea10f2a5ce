"""AlterUserScramCredentials: what Apache Kafka 4.4.0 takes and refuses, and what a cluster keeps of a password."""

from __future__ import annotations

from typing import Any

import pytest

from support.metadata import after, cluster
from tailrace.access.scram import ScramMechanism, salted
from tailrace.errors import ErrorCode
from tailrace.kafka.features import SECURITY_VERSION
from tailrace.metadata import records as r
from tailrace.metadata.image import MetadataImage
from tailrace.wire.messages import AlterUserScramCredentialsRequest
from tailrace_controller.decide import user_scram_credentials
from tailrace_controller.decide.user_scram_credentials import MOST_USERS

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT, PASSWORD = b"s" * 16, b"p" * 32
SECURE = after(cluster(), r.FeatureLevelRecord(SECURITY_VERSION, 1))
IMAGE = after(SECURE, r.UserScramCredentialRecord("alice", SHA_256, SALT, b"stored", b"server", 4096))
Request = AlterUserScramCredentialsRequest
Answers = list[tuple[str, int, str | None]]
TWICE = "A user credential cannot be altered twice in the same request"
ABSENT = "Attempt to delete a user credential that does not exist"


def deletion(name: str, mechanism: int = SHA_256) -> Any:
    return Request.ScramCredentialDeletion(name=name, mechanism=mechanism)


def upsertion(name: str, mechanism: int = SHA_256, iterations: int = 4096, password: bytes = PASSWORD) -> Any:
    row = Request.ScramCredentialUpsertion
    return row(name=name, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=password)


def alter(*asked: Any, image: MetadataImage = IMAGE) -> tuple[Answers, tuple[r.MetadataRecord, ...]]:
    deletions = [one for one in asked if isinstance(one, Request.ScramCredentialDeletion)]
    request = Request(deletions=deletions, upsertions=[one for one in asked if one not in deletions])
    result = user_scram_credentials.alter(image, request)
    return [(row.user, row.error_code, row.error_message) for row in result.reply.results], result.records


def test_of_a_salted_password_the_log_has_two_keys() -> None:
    password = salted(SHA_512, "secret", SALT, 8192)
    answers, (record,) = alter(upsertion("bob", SHA_512, 8192, password))
    assert answers == [("bob", 0, None)]
    assert isinstance(record, r.UserScramCredentialRecord)
    assert (record.name, record.mechanism, record.salt, record.iterations) == ("bob", SHA_512, SALT, 8192)
    assert (len(record.stored_key), len(record.server_key)) == (64, 64)
    assert password not in (record.stored_key, record.server_key)
    assert repr(record) == f"UserScramCredentialRecord(name='bob', mechanism={SHA_512!r}, iterations=8192)"


def test_a_credential_is_deleted() -> None:
    answers, records = alter(deletion("alice"))
    assert answers == [("alice", 0, None)] and records == (r.RemoveUserScramCredentialRecord("alice", SHA_256),)
    assert after(IMAGE, *records).scram == {}


@pytest.mark.parametrize(
    ("asked", "code", "why"),
    [
        ([upsertion("")], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        ([deletion("")], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        ([upsertion("u", 3)], ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        ([deletion("alice", 0)], ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        ([deletion("alice", 0), upsertion("alice")], ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        ([upsertion("u", iterations=4095)], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        ([upsertion("u", iterations=16_385)], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        ([upsertion("u", iterations=1), upsertion("u")], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        ([upsertion("u"), upsertion("u", iterations=1)], ErrorCode.DUPLICATE_RESOURCE, TWICE),
        ([upsertion("u"), upsertion("u", SHA_512)], ErrorCode.DUPLICATE_RESOURCE, TWICE),
        ([upsertion("u")] * 3, ErrorCode.DUPLICATE_RESOURCE, TWICE),
        ([deletion("alice"), upsertion("alice", SHA_512)], ErrorCode.DUPLICATE_RESOURCE, TWICE),
        ([deletion("alice", SHA_512)], ErrorCode.RESOURCE_NOT_FOUND, ABSENT),
        ([deletion("u"), upsertion("u")], ErrorCode.RESOURCE_NOT_FOUND, ABSENT),
        ([upsertion("u", password=b"")], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salted password must not be empty"),
        (
            [upsertion("u", password=b"p" * 129)],
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "Salt or salted password has more than 128 bytes",
        ),
        ([upsertion("u\0")], ErrorCode.UNACCEPTABLE_CREDENTIAL, "The name of the user has a NUL character."),
        ([upsertion("u" * 513)], ErrorCode.UNACCEPTABLE_CREDENTIAL, "The name of the user has more than 512 bytes."),
    ],
)
def test_a_refused_change_has_one_answer_and_changes_nothing(asked: list[Any], code: ErrorCode, why: str) -> None:
    answers, records = alter(*asked)
    assert answers == [(asked[0].name, code, why)] and records == ()


def test_a_refused_user_does_not_refuse_another() -> None:
    answers, records = alter(upsertion("bad", iterations=1), upsertion("good"), deletion("nobody"))
    assert answers == [
        ("good", 0, None),
        ("nobody", ErrorCode.RESOURCE_NOT_FOUND, ABSENT),
        ("bad", ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
    ]
    assert [record.name for record in records if isinstance(record, r.UserScramCredentialRecord)] == ["good"]


def test_before_the_feature_is_on_no_record_is_written_that_older_services_cannot_read() -> None:
    answers, records = alter(upsertion("u"), image=cluster())
    why = "The current metadata version does not support SCRAM"
    assert answers == [("u", ErrorCode.UNSUPPORTED_VERSION, why)] and records == ()


def test_a_cluster_has_a_bound_on_users() -> None:
    known = {f"u{number}": dict[int, r.UserScramCredentialRecord]() for number in range(MOST_USERS)}
    full = MetadataImage(features=SECURE.features, scram=known)
    answers, records = alter(upsertion("new"), upsertion("u1"), image=full)
    assert [(user, code) for user, code, _ in answers] == [("u1", 0), ("new", ErrorCode.POLICY_VIOLATION)]
    assert len(records) == 1
