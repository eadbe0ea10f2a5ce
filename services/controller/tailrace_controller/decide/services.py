"""Gateways, coordinators and quota services: registration, heartbeat, expiry. Like brokers, but nothing to fence."""

from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import MetadataImage, ServiceImage
from tailrace.metadata.records import NO_UUID, Endpoint, MetadataRecord, RemoveServiceRecord, ServiceRecord
from tailrace.wire.messages import RegisterServiceRequest, ServiceHeartbeatRequest
from tailrace_controller.decide import shards
from tailrace_controller.decide.controller_result import ControllerResult

COORDINATOR, QUOTA = "coordinator", "quota"
ROLES = ("gateway", COORDINATOR, QUOTA)


def register(image: MetadataImage, request: RegisterServiceRequest, *, is_connected: bool) -> ControllerResult[int]:
    """Registers an incarnation; the reply is its epoch, the offset of its record.

    INVALID_REQUEST for an unknown role; DUPLICATE_BROKER_REGISTRATION while another incarnation still heartbeats.
    """
    if request.role not in ROLES:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{request.role!r} is not a role that registers")
    incarnation_id = request.incarnation_id or NO_UUID
    endpoints = tuple(Endpoint(at.name, at.host, at.port) for at in request.endpoints)
    present = image.services.get((request.role, request.service_id))
    same = present is not None and present.incarnation_id == incarnation_id
    if present is not None and same and present.endpoints == endpoints:
        return ControllerResult(present.service_epoch)
    if present is not None and not same and is_connected:
        raise ApiError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another {request.role} is registered with id {request.service_id}.",
        )
    epoch = image.offset + 1
    record = ServiceRecord(request.role, request.service_id, epoch, incarnation_id, endpoints)
    if request.role != shards.COORDINATOR:
        return ControllerResult(epoch, (record,))
    return ControllerResult(epoch, shards.with_assignment(image, (record,), restarted=request.service_id))


def heartbeat(image: MetadataImage, request: ServiceHeartbeatRequest) -> ControllerResult[None]:
    """Accepts a heartbeat, or removes a service that wants to shut down.

    BROKER_ID_NOT_REGISTERED and STALE_BROKER_EPOCH tell a service to register again.
    """
    service = check_epoch(image, request.role, request.service_id, request.service_epoch)
    return ControllerResult(None, _removal(image, service) if request.want_shut_down else ())


def check_epoch(image: MetadataImage, role: str, service_id: int, service_epoch: int) -> ServiceImage:
    """Returns the service if this is its present life; raises ApiError as heartbeat does."""
    service = image.services.get((role, service_id))
    if service is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"no {role} {service_id} is registered")
    if service.service_epoch != service_epoch:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"{role} {service_id} has epoch {service.service_epoch}, not {service_epoch}",
        )
    return service


def expire(image: MetadataImage, role: str, service_id: int, service_epoch: int) -> ControllerResult[bool]:
    """Removes a service that was not heard, unless it registered again meanwhile; the reply says whether it did."""
    service = image.services.get((role, service_id))
    if service is None or service.service_epoch != service_epoch:
        return ControllerResult(False)
    return ControllerResult(True, _removal(image, service))


def _removal(image: MetadataImage, service: ServiceImage) -> tuple[MetadataRecord, ...]:
    record = RemoveServiceRecord(service.role, service.service_id, service.service_epoch)
    return shards.with_assignment(image, (record,)) if service.role == shards.COORDINATOR else (record,)
