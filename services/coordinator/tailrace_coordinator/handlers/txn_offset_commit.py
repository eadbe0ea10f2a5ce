"""TxnOffsetCommit v0-6: offsets that count when the transaction commits (KIP-98).

v3 member and generation (KIP-447). v4 TRANSACTION_ABORTABLE. v5 adds the group's partition to the transaction
(KIP-890); before it AddOffsetsToTxn has done so, and the transaction's coordinator is asked whether it has.
v6 topic ids (KIP-1319): UNKNOWN_TOPIC_ID, and GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH instead of ILLEGAL_GENERATION.
"""

from __future__ import annotations

from typing import Final

from tailrace.errors import ApiError, ErrorCode
from tailrace.net.context import Context
from tailrace.state import ProducerIdAndEpoch
from tailrace.wire.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from tailrace_coordinator.coordinator import Coordinator
from tailrace_coordinator.groups.ended_transactions import Moment
from tailrace_coordinator.groups.offsets import CommitHeader, OffsetToCommit
from tailrace_coordinator.handlers import offset_commit
from tailrace_coordinator.handlers.asking import verify

_ADDS_FROM: Final = 5
_ABORTABLE_FROM: Final = 4
_LOADING_FROM: Final = 2
_BY_ID_FROM: Final = 6
_TOPIC = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic


async def handle(
    request: TxnOffsetCommitRequest, context: Context, coordinator: Coordinator
) -> TxnOffsetCommitResponse:
    """Answers one code per partition, once the offsets are in the log."""
    try:
        rows, positions = await offset_commit.sorted_positions(
            request, coordinator, by_id=context.api_version >= _BY_ID_FROM
        )
    except ApiError as refused:
        raise ApiError(_of_version(refused.code, context.api_version)) from refused
    codes: list[ErrorCode] = []
    if positions:
        try:
            codes = await _commit(request, context, coordinator, positions)
        except ApiError as refused:
            codes = [_of_version(refused.code, context.api_version)] * len(positions)
    topics = await offset_commit.answered(
        request, coordinator, rows, codes, _TOPIC, _TOPIC.TxnOffsetCommitResponsePartition
    )
    return TxnOffsetCommitResponse(topics=topics)


async def _commit(
    request: TxnOffsetCommitRequest, context: Context, coordinator: Coordinator, positions: list[OffsetToCommit]
) -> list[ErrorCode]:
    groups, producer = coordinator.groups, ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    has_member = context.api_version >= 3
    commit = CommitHeader(
        request.group_id,
        request.generation_id_or_member_epoch if has_member else -1,
        request.member_id if has_member else "",
        request.group_instance_id if has_member else None,
        context.api_version,
    )
    supports_epoch_bump = context.api_version >= _ADDS_FROM
    verified: Moment | None = await groups.ask(
        request, lambda machine, now_ms, token: machine.open_transaction(now_ms, token, producer)
    )
    if verified is not None:
        partition = (groups.topic, groups.partition_of(request.group_id))
        await verify(coordinator, request.transactional_id, producer, partition, adds=supports_epoch_bump)
    codes: list[ErrorCode] = await groups.ask_in_pieces(
        request,
        positions,
        lambda some, machine, now_ms, token: machine.commit_in_transaction(
            now_ms, token, commit, some, producer, verified, supports_epoch_bump=supports_epoch_bump
        ),
    )
    return codes


def _of_version(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_FROM:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE  # which old producers take for final
    return code
