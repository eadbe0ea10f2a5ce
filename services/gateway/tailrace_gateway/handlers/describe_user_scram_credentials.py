"""DescribeUserScramCredentials v0 (KIP-554): nobody has any.

`kafka-configs.sh --describe --entity-type users` asks for them beside a user's quotas, and shows neither without an
answer. The answers are, with their sentences, those of Apache Kafka without SCRAM credentials: all users are none, a
named one is not found, one that is named twice is refused.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from tailrace.errors import ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse
from tailrace_gateway.gateway import Gateway

_Row = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
_UNKNOWN = "Attempt to describe a user credential that does not exist: "
_TWICE = "Cannot describe SCRAM credentials for the same user twice in a single request: "


async def handle(
    request: DescribeUserScramCredentialsRequest, context: Context, gateway: Gateway
) -> DescribeUserScramCredentialsResponse:
    return await gateway.large.over_rows(request, partial(_answer, request))


def _answer(request: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
    results = []
    for name, times in Counter(user.name for user in request.users or ()).items():
        code, why = ErrorCode.RESOURCE_NOT_FOUND, _UNKNOWN
        if times > 1:
            code, why = ErrorCode.DUPLICATE_RESOURCE, _TWICE
        results.append(_Row(user=name, error_code=code, error_message=why + name, credential_infos=[]))
    return DescribeUserScramCredentialsResponse(error_code=0, error_message="", results=results)
