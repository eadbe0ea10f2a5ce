"""AcquireLease v0 (private): a gateway reports what its limited clients used and want, and gets its part of the rates.

A lease runs for lease_ms from when it was asked for. Entries come back in the order of the request. `limited` false:
the quota is gone. `credit_bytes` are what other gateways left unused, to be added to the bucket once.
"""

from __future__ import annotations

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.quota.entity import QuotaKind
from tailrace.quota.leases import Demand
from tailrace.wire.messages import AcquireLeaseRequest, AcquireLeaseResponse
from tailrace_quota.quota import Quota


async def handle(request: AcquireLeaseRequest, context: Context, quota: Quota) -> AcquireLeaseResponse:
    if not quota.knows_quotas:
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    try:
        demands = [
            Demand(
                entry.client_id or "",
                QuotaKind(entry.kind),
                entry.demand_bytes_per_second,
                entry.used_bytes,
                entry.unused_bytes,
            )
            for entry in request.entries
        ]
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST) from None
    grants = await quota.acquire((request.gateway_id, str(request.incarnation_id)), demands)
    lease = AcquireLeaseResponse.Lease
    return AcquireLeaseResponse(
        error_code=ErrorCode.NONE,
        lease_ms=quota.lease_ms,
        entries=[
            lease(
                client_id=grant.client_id,
                kind=grant.kind,
                limited=grant.limited,
                rate_bytes_per_second=grant.rate_bytes_per_second,
                credit_bytes=grant.credit_bytes,
            )
            for grant in grants
        ],
    )
