"""BrokerHeartbeat v0-2 (KIP-631). Unfences, fences, starts a controlled shutdown; silence is watch.py's business."""

from tailrace.net.context import Context
from tailrace.wire.messages import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tailrace_controller.decide import brokers
from tailrace_controller.election.acceptance import Seen
from tailrace_controller.role import ControllerRole
from tailrace_controller.sessions.watch import BROKER


async def handle(request: BrokerHeartbeatRequest, context: Context, role: ControllerRole) -> BrokerHeartbeatResponse:
    controller = role.controller
    await controller.until_active()
    await controller.check(Seen(request.current_metadata_offset))
    brokers.check_epoch(controller.image, request.broker_id, request.broker_epoch)
    # before the decision: a session must not end while the database takes its time
    role.watch.on_heartbeat(BROKER, request.broker_id, request.broker_epoch, context.connection)
    role.quorum.observed(request.broker_id, request.current_metadata_offset, controller.followed.end_offset)
    run = controller.run_in_thread if brokers.is_news(controller.image, request) else controller.run
    return await run(
        lambda image: brokers.heartbeat(image, controller.committed, request, controller.config), behind=False
    )
