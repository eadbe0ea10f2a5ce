"""Brokers: registration with epochs, heartbeats, fencing, controlled shutdown and leaving for good (KIP-631).

A broker that registers again says which epoch it had when it shut down cleanly (previous_broker_epoch, KIP-966). If
that is not the one we know, it may have lost the end of its logs: it leaves every ISR and ELR.
"""

from uuid import UUID

from tailrace.config import Config
from tailrace.errors import ApiError, ErrorCode
from tailrace.metadata.image import BrokerImage, MetadataImage
from tailrace.metadata.records import (
    NO_UUID,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    Endpoint,
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from tailrace.wire.messages import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    UnregisterBrokerResponse,
)
from tailrace_controller.decide import elections, features, log_dirs
from tailrace_controller.decide.controller_result import ControllerResult
from tailrace_controller.decide.election_counts import counted

FENCED, UNFENCED = 1, -1
AT_ONCE_MAX = 1000  # partitions that a fenced broker's leaderships do not wait for


def register(
    image: MetadataImage, request: BrokerRegistrationRequest, config: Config, *, is_connected: bool
) -> ControllerResult[BrokerRegistrationResponse]:
    """Gives a new incarnation its epoch, the offset of its record; the same incarnation keeps the one it has.

    is_connected says that the present incarnation still heartbeats: then another one is refused
    (DUPLICATE_BROKER_REGISTRATION). INCONSISTENT_CLUSTER_ID for a broker of another cluster, UNSUPPORTED_VERSION for
    one that does not know a level of a feature that is finalized.
    """
    if request.cluster_id and request.cluster_id != image.cluster_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {image.cluster_id}, but got cluster ID {request.cluster_id}",
        )
    features.check_broker(image, request)
    incarnation_id = request.incarnation_id or NO_UUID
    broker = image.brokers.get(request.broker_id)
    same = broker is not None and broker.incarnation_id == incarnation_id
    if broker is not None and not same and is_connected and not broker.in_controlled_shutdown:
        raise ApiError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"Another broker is registered with id {request.broker_id}."
        )
    if broker is not None and same:
        record = _registration(request, incarnation_id, broker.broker_epoch, broker)
        unchanged = record.end_points == broker.endpoints and record.rack == broker.rack
        records: tuple[MetadataRecord, ...] = () if unchanged else (record,)
        return ControllerResult(BrokerRegistrationResponse(error_code=0, broker_epoch=broker.broker_epoch), records)
    epoch = image.offset + 1
    record = _registration(request, incarnation_id, epoch, None)
    changes = _after_restart(image, broker, request, config)
    return ControllerResult(BrokerRegistrationResponse(error_code=0, broker_epoch=epoch), (record, *changes))


def _after_restart(
    image: MetadataImage, broker: BrokerImage | None, request: BrokerRegistrationRequest, config: Config
) -> list[PartitionChangeRecord]:
    clean = broker is not None and broker.broker_epoch == request.previous_broker_epoch
    if clean and not log_dirs.misses_any(image, request.broker_id, request.log_dirs or ()):
        return elections.on_broker_gone(image, request.broker_id, config)
    return elections.on_unclean_shutdown(image, request.broker_id, config)


def _registration(
    request: BrokerRegistrationRequest, incarnation_id: UUID, epoch: int, present: BrokerImage | None
) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=incarnation_id,
        broker_epoch=epoch,
        end_points=tuple(Endpoint(at.name, at.host, at.port, at.security_protocol) for at in request.listeners),
        features=tuple(
            BrokerFeature(feature.name, feature.min_supported_version, feature.max_supported_version)
            for feature in request.features
        ),
        rack=request.rack,
        fenced=present is None or present.fenced,
        in_controlled_shutdown=present is not None and present.in_controlled_shutdown,
        log_dirs=tuple(directory or NO_UUID for directory in request.log_dirs or ()),
    )


def heartbeat(
    image: MetadataImage, committed: MetadataImage, request: BrokerHeartbeatRequest, config: Config
) -> ControllerResult[BrokerHeartbeatResponse]:
    """Unfences a broker that has read its own registration; fences or shuts down one that asks for it.

    A broker may shut down when no leader is left to move: the answer to the heartbeat that moved some is "not yet", so
    that they are known when it goes. BROKER_ID_NOT_REGISTERED and STALE_BROKER_EPOCH tell a broker to register again.
    """
    broker = check_epoch(image, request.broker_id, request.broker_epoch)
    caught_up = request.current_metadata_offset >= broker.broker_epoch
    # Alone: what else the heartbeat asks for is decided with its next one, in an image that has this.
    records = log_dirs.went_offline(image, broker, request.offline_log_dirs or (), config)
    failed = bool(records)
    if not failed:
        records = _wanted(image, broker, request, config)
    moved = counted(records).leader_elections > 0
    # Without records the answer leaves at once, so it may only say what is committed.
    known = committed.brokers.get(request.broker_id)
    fenced = request.want_fence if records and not failed else known is None or known.fenced
    response = BrokerHeartbeatResponse(
        error_code=0,
        is_caught_up=caught_up,
        is_fenced=fenced,
        should_shut_down=request.want_shut_down and not failed and not moved and (bool(records) or _may_go(known)),
    )
    return ControllerResult(response, records)


def _wanted(
    image: MetadataImage, broker: BrokerImage, request: BrokerHeartbeatRequest, config: Config
) -> tuple[MetadataRecord, ...]:
    """What the broker asks for: to go, to be fenced, or not to be any more."""
    caught_up = request.current_metadata_offset >= broker.broker_epoch
    if request.want_shut_down:
        if broker.in_controlled_shutdown or broker.fenced:
            return ()
        change = BrokerRegistrationChangeRecord(broker.broker_id, broker.broker_epoch, in_controlled_shutdown=1)
        return (change, *elections.on_broker_gone(image, broker.broker_id, config))
    if broker.fenced and caught_up and not request.want_fence:
        change = BrokerRegistrationChangeRecord(broker.broker_id, broker.broker_epoch, fenced=UNFENCED)
        return (change, *elections.on_broker_back(image, broker.broker_id, config))
    return fence(image, broker, config) if request.want_fence and not broker.fenced else ()


def is_news(image: MetadataImage, request: BrokerHeartbeatRequest) -> bool:
    """Whether a heartbeat changes the broker, and with it maybe all partitions that the broker has."""
    broker = check_epoch(image, request.broker_id, request.broker_epoch)
    if not set(broker.log_dirs).isdisjoint(request.offline_log_dirs or ()):
        return True
    if request.want_shut_down:
        return not broker.in_controlled_shutdown and not broker.fenced
    if broker.fenced:
        return request.current_metadata_offset >= broker.broker_epoch and not request.want_fence
    return bool(request.want_fence)


def _may_go(known: BrokerImage | None) -> bool:
    return known is None or known.in_controlled_shutdown or known.fenced


def fence(image: MetadataImage, broker: BrokerImage, config: Config) -> tuple[MetadataRecord, ...]:
    """Returns the records that fence a broker and take its leaderships away."""
    change = BrokerRegistrationChangeRecord(broker.broker_id, broker.broker_epoch, fenced=FENCED)
    return (change, *elections.on_broker_gone(image, broker.broker_id, config))


def hand_over(image: MetadataImage, broker_id: int, broker_epoch: int, config: Config) -> ControllerResult[None]:
    """Moves the leaderships of a broker that is to be fenced next, where they would wait long for its other partitions.

    It takes a while to write what changes in thousands of partitions, most of which have their leader and can go on
    until the broker leaves their ISR. The broker leaves the ISR of those that it led here already.
    """
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced or broker.broker_epoch != broker_epoch:
        return ControllerResult(None)
    others = 0
    for _, _, partition in elections.partitions(image):
        others += broker_id in partition.isr and partition.leader != broker_id
        if others > AT_ONCE_MAX:
            return ControllerResult(None, tuple(elections.leaders_of(image, broker_id, config)))
    return ControllerResult(None)


def expire(image: MetadataImage, broker_id: int, broker_epoch: int, config: Config) -> ControllerResult[bool]:
    """Fences a broker that was not heard, unless it registered again meanwhile; the reply says whether it did."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.fenced or broker.broker_epoch != broker_epoch:
        return ControllerResult(False)
    return ControllerResult(True, fence(image, broker, config))


def unregister(image: MetadataImage, broker_id: int, config: Config) -> ControllerResult[UnregisterBrokerResponse]:
    """Forgets a broker, live or not, as Kafka does; BROKER_ID_NOT_REGISTERED if there is none.

    Partitions keep it among their replicas: move them first (AlterPartitionReassignments).
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    changes = elections.on_broker_gone(image, broker_id, config)
    records: tuple[MetadataRecord, ...] = (*changes, UnregisterBrokerRecord(broker_id, broker.broker_epoch))
    return ControllerResult(UnregisterBrokerResponse(error_code=0, error_message=None), records)


def check_epoch(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerImage:
    """Returns the broker if this is its epoch."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {broker_id} found.")
    if broker.broker_epoch != broker_epoch:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker.broker_epoch}, but got broker epoch {broker_epoch}",
        )
    return broker
