"""Producer ids in blocks of 1000: a block is handed out once and never again (KIP-730)."""

from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import ProducerIdsRecord
from tailrace.wire.messages import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tailrace_controller.decide.brokers import check_epoch
from tailrace_controller.decide.controller_result import ControllerResult

BLOCK_SIZE = 1000


def allocate(
    image: MetadataImage, request: AllocateProducerIdsRequest
) -> ControllerResult[AllocateProducerIdsResponse]:
    """Gives the broker the next block; STALE_BROKER_EPOCH or BROKER_ID_NOT_REGISTERED if it is another one."""
    check_epoch(image, request.broker_id, request.broker_epoch)
    start = image.next_producer_id
    record = ProducerIdsRecord(request.broker_id, request.broker_epoch, start + BLOCK_SIZE)
    response = AllocateProducerIdsResponse(error_code=0, producer_id_start=start, producer_id_len=BLOCK_SIZE)
    return ControllerResult(response, (record,))
