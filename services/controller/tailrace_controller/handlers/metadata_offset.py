"""MetadataOffset v0, a private API: up to where the metadata log is committed.

A service that asks after a write was answered, and waits until its image has come so far, shows that write to whoever
asks it next.
"""

from tailrace.net.context import Context
from tailrace.wire.messages import MetadataOffsetRequest, MetadataOffsetResponse
from tailrace_controller.election.acceptance import Seen
from tailrace_controller.role import ControllerRole


async def handle(request: MetadataOffsetRequest, context: Context, role: ControllerRole) -> MetadataOffsetResponse:
    controller = role.controller
    await controller.until_active()
    await controller.check(Seen(request.current_metadata_offset))
    return MetadataOffsetResponse(controller_epoch=controller.epoch, committed_offset=controller.committed.offset)
