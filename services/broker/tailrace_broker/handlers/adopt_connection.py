"""AdoptConnection v0 (private): a gateway of this host hands a client's accepted socket over.

The preamble before it says who the client is and what it was told. The answer means "send it": the socket comes next on
this connection (SCM_RIGHTS) with the bytes that were read from it. From then on the roles are turned round: the broker
sends frames of the client's that are not its own to answer, and the gateway answers them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import AdoptConnectionRequest, AdoptConnectionResponse

if TYPE_CHECKING:
    from tailrace_broker.connections.adopted import Adopted


async def handle(request: AdoptConnectionRequest, context: Context, adopted: Adopted) -> AdoptConnectionResponse:
    """INVALID_REQUEST off a Unix socket."""
    adopted.expect(context.connection)
    return AdoptConnectionResponse(error_code=ErrorCode.NONE)
