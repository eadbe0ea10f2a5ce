"""Refusals of the APIs about transactions."""

from __future__ import annotations

from tailrace.wire import messages as m


def add_partitions_to_txn(
    request: m.AddPartitionsToTxnRequest, version: int, code: int, message: str | None
) -> m.AddPartitionsToTxnResponse:
    if version >= 4:
        return m.AddPartitionsToTxnResponse(error_code=code, results_by_transaction=[])
    topic = m.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    row = topic.AddPartitionsToTxnPartitionResult
    topics = [
        topic(
            name=asked.name,
            results_by_partition=[row(partition_index=p, partition_error_code=code) for p in asked.partitions],
        )
        for asked in request.v3_and_below_topics
    ]
    return m.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def write_txn_markers(
    request: m.WriteTxnMarkersRequest, version: int, code: int, message: str | None
) -> m.WriteTxnMarkersResponse:
    marker = m.WriteTxnMarkersResponse.WritableTxnMarkerResult
    topic = marker.WritableTxnMarkerTopicResult
    row = topic.WritableTxnMarkerPartitionResult
    return m.WriteTxnMarkersResponse(
        markers=[
            marker(
                producer_id=asked.producer_id,
                topics=[
                    topic(
                        name=t.name,
                        partitions=[row(partition_index=index, error_code=code) for index in t.partition_indexes],
                    )
                    for t in asked.topics
                ],
            )
            for asked in request.markers
        ]
    )


def describe_transactions(
    request: m.DescribeTransactionsRequest, version: int, code: int, message: str | None
) -> m.DescribeTransactionsResponse:
    one = m.DescribeTransactionsResponse.TransactionState
    return m.DescribeTransactionsResponse(
        transaction_states=[
            one(error_code=code, transactional_id=name, transaction_state="", topics=[])
            for name in request.transactional_ids
        ]
    )
