"""DescribeQuotaUsage v0 (private): what limited clients use, the largest share of a limit first; gateways show it."""

from __future__ import annotations

from tailrace.net.context import Context
from tailrace.net.members.accounts import fields_of
from tailrace.wire.messages import DescribeQuotaUsageRequest, DescribeQuotaUsageResponse
from tailrace_quota.quota import Quota

_Row = DescribeQuotaUsageResponse.QuotaUsage


async def handle(request: DescribeQuotaUsageRequest, context: Context, quota: Quota) -> DescribeQuotaUsageResponse:
    entries = [
        _Row(
            **fields_of(used.account),
            key=used.key,
            limit=used.limit,
            rate=used.rate,
            total=used.total,
            throttle_time_ms=used.throttle_time_ms,
            throttled=used.throttled,
        )
        for used in quota.usage()[: max(0, request.max_entries)]
    ]
    return DescribeQuotaUsageResponse(error_code=0, entries=entries)
