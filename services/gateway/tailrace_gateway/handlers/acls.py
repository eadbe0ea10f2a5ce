"""DescribeAcls, CreateAcls and DeleteAcls v1-3 (KIP-140, KIP-290): there is no authorizer.

The answers are, with their sentences, those of Apache Kafka without one. User interfaces ask when they start, and hide
their page of ACLs.
"""

from __future__ import annotations

from typing import NoReturn

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context


async def describe(request: object, context: Context, gateway: object) -> NoReturn:
    raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")


async def alter(request: object, context: Context, gateway: object) -> NoReturn:
    """Every creation, and every filter of what is to be deleted, has an answer of its own."""
    raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
