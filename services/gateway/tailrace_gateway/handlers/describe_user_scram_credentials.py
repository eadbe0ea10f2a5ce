"""DescribeUserScramCredentials v0 (KIP-554): the mechanisms and iterations of users, never their keys.

`kafka-configs.sh --describe --entity-type users` asks for them beside a user's quotas, and shows neither without an
answer. All users are those that have a credential; a named one without is not found, one named twice is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial

from tailrace.errors import ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.net.context import Context
from tailrace.wire.messages import DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse
from tailrace_gateway.gateway import Gateway

_Row = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
_UNKNOWN = "Attempt to describe a user credential that does not exist: "
_TWICE = "Cannot describe SCRAM credentials for the same user twice in a single request: "


async def handle(
    request: DescribeUserScramCredentialsRequest, context: Context, gateway: Gateway
) -> DescribeUserScramCredentialsResponse:
    names = [user.name for user in request.users or ()] or list(gateway.image.scram)
    return await gateway.large.over(len(names), partial(_answer, gateway.image, names))


def _answer(image: MetadataImage, names: Iterable[str]) -> DescribeUserScramCredentialsResponse:
    results = []
    for name, times in Counter(names).items():
        credentials = image.scram.get(name)
        if times > 1:
            results.append(_refused(name, ErrorCode.DUPLICATE_RESOURCE, _TWICE))
        elif credentials is None:
            results.append(_refused(name, ErrorCode.RESOURCE_NOT_FOUND, _UNKNOWN))
        else:
            infos = [
                _Row.CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
                for mechanism, credential in sorted(credentials.items())
            ]
            results.append(_Row(user=name, error_code=ErrorCode.NONE, error_message="", credential_infos=infos))
    return DescribeUserScramCredentialsResponse(error_code=0, error_message="", results=results)


def _refused(name: str, code: ErrorCode, why: str) -> _Row:
    return _Row(user=name, error_code=code, error_message=why + name, credential_infos=[])
