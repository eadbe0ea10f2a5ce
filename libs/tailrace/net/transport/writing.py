"""Several buffers out with one call, and a pause where the client does not take them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

# asyncio's writelines of these versions never asks its protocol to pause (CVE-2024-12254): a client that takes no
# answers would have them all prepared. uvloop is not concerned, but a copy does no harm there.
_NEVER_PAUSES: Final = (3, 12) <= sys.version_info < (3, 12, 9) or (3, 13) <= sys.version_info < (3, 13, 2)


def write_all(transport: Any, buffers: Sequence[Any], never_pauses: bool = _NEVER_PAUSES) -> None:
    """Writes the buffers in their order; the protocol's pause_writing is called if too much is unsent then."""
    if never_pauses:
        transport.write(b"".join(buffers))
    else:
        transport.writelines(buffers)
