"""One file per API; the table is what this role serves."""

from __future__ import annotations

from tailrace.net.dispatch import Handler
from tailrace.wire.apis import ApiKey
from tailrace_quota.handlers import acquire_lease, describe_quota_usage

HANDLERS: dict[int, Handler] = {
    ApiKey.ACQUIRE_LEASE: acquire_lease.handle,
    ApiKey.DESCRIBE_QUOTA_USAGE: describe_quota_usage.handle,
}
