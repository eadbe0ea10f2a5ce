"""AlterUserScramCredentials v0 (KIP-554)."""

from tailrace.net.context import Context
from tailrace.wire.messages import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from tailrace_controller.decide import user_scram_credentials
from tailrace_controller.role import ControllerRole


async def handle(
    request: AlterUserScramCredentialsRequest, context: Context, role: ControllerRole
) -> AlterUserScramCredentialsResponse:
    return await role.controller.run_long(lambda image: user_scram_credentials.alter(image, request))
