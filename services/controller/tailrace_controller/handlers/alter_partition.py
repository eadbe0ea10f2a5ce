"""AlterPartition v2-3 (KIP-497): the leader of a partition proposes its ISR. v2: topic ids (KIP-841). v3: the ISR
with broker epochs (KIP-903). Brokers alone ask this.
"""

from tailrace.net.context import Context
from tailrace.wire.messages import AlterPartitionRequest, AlterPartitionResponse
from tailrace_controller.decide import alter_partition
from tailrace_controller.role import ControllerRole


async def handle(request: AlterPartitionRequest, context: Context, role: ControllerRole) -> AlterPartitionResponse:
    controller, version = role.controller, context.api_version
    return await controller.run_in_thread(
        lambda image: alter_partition.alter(image, request, version, controller.config)
    )
