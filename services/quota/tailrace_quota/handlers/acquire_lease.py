"""AcquireLease v0 (private): a gateway or broker tells what its clients used and want, and gets its part of the rates.

A lease runs for lease_ms from when it was asked for. Entries come back in the order of the request. `limited` false:
the quota is gone. `credit` is what other gateways left unused, to be added to the bucket once.
"""

from __future__ import annotations

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.net.members.accounts import account_of, fields_of
from tailrace.quota.entity import QuotaKind
from tailrace.quota.leases import Demand, Grant
from tailrace.wire.messages import AcquireLeaseRequest, AcquireLeaseResponse
from tailrace_quota.quota import Quota
from tailrace_quota.store.port import StoreUnavailable


async def handle(request: AcquireLeaseRequest, context: Context, quota: Quota) -> AcquireLeaseResponse:
    if not quota.knows_quotas:
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    gateway = (request.gateway_id, str(request.incarnation_id))
    try:
        demands = [_demand(entry) for entry in request.entries]
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST) from None
    try:
        grants = await quota.acquire(gateway, demands)
    except StoreUnavailable as away:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(away)) from away
    return AcquireLeaseResponse(error_code=ErrorCode.NONE, lease_ms=quota.lease_ms, entries=list(map(_lease, grants)))


def _demand(entry: AcquireLeaseRequest.LeaseDemand) -> Demand:
    """Raises ValueError for a kind that nobody knows."""
    return Demand(
        account_of(entry),
        QuotaKind(entry.kind),
        entry.rate,
        entry.used,
        entry.unused,
        entry.throttle_time_ms,
        entry.debt_ms,
    )


def _lease(grant: Grant) -> AcquireLeaseResponse.Lease:
    return AcquireLeaseResponse.Lease(
        **fields_of(grant.account), kind=grant.kind, limited=grant.limited, rate=grant.rate, credit=grant.credit
    )
