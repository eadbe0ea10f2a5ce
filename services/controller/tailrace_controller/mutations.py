"""Whose controller mutations a request makes (KIP-599), by the quotas of the newest image."""

from __future__ import annotations

from tailrace.metadata.image import MetadataImage
from tailrace.net.context import Context
from tailrace.net.identity import user_of
from tailrace.quota.entity import ClientQuotas
from tailrace.quota.mutations import UNLIMITED, MutationQuota, MutationQuotas
from tailrace_controller.controller import Controller


class ClientMutations:
    """The active controller's buckets; another controller begins with full ones."""

    def __init__(self, controller: Controller) -> None:
        config = controller.config
        windows_ms = config.controller_quota_window_num * config.controller_quota_window_size_seconds * 1000.0
        self._controller = controller
        self._buckets = MutationQuotas(
            windows_ms, config.quota_max_throttle_ms, config.quota_max_entries, controller.clock.monotonic_ms
        )
        self._quotas = ClientQuotas()
        self._seen = MetadataImage().quotas
        self.throttled_count = 0

    def quota_of(self, context: Context, strict_since: int) -> MutationQuota:
        """What a client's request is charged to. The cluster's own services create topics without a quota."""
        identity = context.connection.session.identity
        if identity.listener != "CLIENT":
            return UNLIMITED
        quotas = self._controller.image.quotas
        if quotas is not self._seen:
            self._seen, self._quotas = quotas, ClientQuotas(quotas)
        user, client_id = user_of(identity.principal), context.client_id or ""
        return self._buckets.of(self._quotas, user, client_id, strict=context.api_version >= strict_since)

    def throttled(self, quota: MutationQuota) -> int:
        """The throttle_time_ms of the answer."""
        throttle_time_ms = quota.throttle_time_ms
        self.throttled_count += bool(throttle_time_ms)
        return throttle_time_ms
