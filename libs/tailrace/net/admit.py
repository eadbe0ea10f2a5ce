"""The one step that lets a request in: hot or ordinary, served here or relayed, it is asked before any handler.

Without a policy every client may ask for all that its listener serves, and need not authenticate. Authentication state,
ACLs of the cluster and request quotas belong here. What an ACL says of a topic or group is known only once a request is
decoded: its handler asks then, as Produce and Fetch ask whether a role of the cluster speaks (Identity.is_service).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tailrace.net.context import Identity

# (who asks, api key, version) -> the error code of the answer, NONE (0) to let the request in. It may not wait.
Admit: TypeAlias = Callable[[Identity, int, int], int]
