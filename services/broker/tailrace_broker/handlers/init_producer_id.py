"""InitProducerId v0-5 without a transactional id (KIP-98, KIP-360): a fresh producer id with epoch 0.

A known id that wants a new epoch (v3 and later, after an error) gets a fresh id too, as in Kafka without transactions.
Requests with a transactional id are for the coordinator of the transaction, and never come here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.wire.messages import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER_ID = NO_PRODUCER_EPOCH = -1

if TYPE_CHECKING:
    from tailrace_broker.produce.producer_ids import ProducerIds


async def handle(request: InitProducerIdRequest, context: Context, producer_ids: ProducerIds) -> InitProducerIdResponse:
    """Answers a producer id out of this broker's block."""
    if request.transactional_id is not None:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    producer_id = await producer_ids.next_id()
    return InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=0)
