"""ReportGroups v0 (private): a part of what a coordinator tells of its groups, or a quota service of the use of quotas,
for the SQL views.

The answer comes when the part is stored, so that the next one is not on its way before. Parts that do not follow a
first one are refused: the coordinator begins again when its next report is due.
"""

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import ReportGroupsRequest, ReportGroupsResponse
from tailrace_controller.decide import reports, services
from tailrace_controller.metadata_log.stored import ReportPart
from tailrace_controller.role import ControllerRole


async def handle(request: ReportGroupsRequest, context: Context, role: ControllerRole) -> ReportGroupsResponse:
    controller = role.controller
    await controller.until_active()
    reporter = services.QUOTA if request.kind in reports.BY_QUOTA_SERVICES else services.COORDINATOR
    services.check_epoch(controller.image, reporter, request.service_id, request.service_epoch)
    reported_ms = role.reported_ms(request.service_id, request.kind, first=request.first)
    if reported_ms is None or request.kind not in reports.KINDS:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    rows = reports.parse(request.kind, bytes(request.payload), reported_ms)
    await controller.report(request.service_id, ReportPart(request.kind, rows, reported_ms, request.last))
    return ReportGroupsResponse(error_code=0)
