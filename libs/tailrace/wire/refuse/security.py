"""Refusals of the APIs about ACLs and users."""

from __future__ import annotations

from tailrace.wire import messages as m


def create_acls(request: m.CreateAclsRequest, version: int, code: int, message: str | None) -> m.CreateAclsResponse:
    one = m.CreateAclsResponse.AclCreationResult
    return m.CreateAclsResponse(results=[one(error_code=code, error_message=message) for _ in request.creations])


def delete_acls(request: m.DeleteAclsRequest, version: int, code: int, message: str | None) -> m.DeleteAclsResponse:
    one = m.DeleteAclsResponse.DeleteAclsFilterResult
    return m.DeleteAclsResponse(
        filter_results=[one(error_code=code, error_message=message, matching_acls=[]) for _ in request.filters]
    )


def describe_user_scram_credentials(
    request: m.DescribeUserScramCredentialsRequest, version: int, code: int, message: str | None
) -> m.DescribeUserScramCredentialsResponse:
    row = m.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
    results = [
        row(user=user.name, error_code=code, error_message=message, credential_infos=[]) for user in request.users or ()
    ]
    return m.DescribeUserScramCredentialsResponse(error_code=code, error_message=message, results=results)


def alter_user_scram_credentials(
    request: m.AlterUserScramCredentialsRequest, version: int, code: int, message: str | None
) -> m.AlterUserScramCredentialsResponse:
    names = dict.fromkeys(asked.name for asked in [*request.deletions, *request.upsertions])
    row = m.AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult
    return m.AlterUserScramCredentialsResponse(
        results=[row(user=name, error_code=code, error_message=message) for name in names]
    )
