"""Open transactions and limited clients."""

from __future__ import annotations

import pytest

from support.authorizers import Recorder
from support.rest_backend import MemoryBackend
from tailrace.errors import ApiError, ErrorCode
from tailrace.wire.messages import DescribeOpenTransactionsResponse, DescribeQuotaUsageResponse
from tailrace_gateway.rest.access.permitted import PermittedAdmin
from tailrace_gateway.rest.console.looks.activity import QuotaLimitsLook, quotas, transactions


async def test_transactions_of_a_silent_broker_are_not_said_to_be_none() -> None:
    backend = MemoryBackend(brokers=2)
    row = DescribeOpenTransactionsResponse.OpenTransaction
    backend.opened[0] = [row(topic_name="orders", partition_index=0, producer_id=1, is_late=True)]
    backend.silent = {1}
    found = await transactions(backend)
    assert found.rows["orders:0:1"]["state"] == "LATE"
    assert found.note == "Not known of the partitions of broker 1: no answer."


async def test_limited_clients_keep_the_order_of_their_shares() -> None:
    backend = MemoryBackend()
    row = DescribeQuotaUsageResponse.QuotaUsage
    for name in ("most", "least"):
        used = row(client_id=name, key="producer_byte_rate", limit=10.0, rate=5.0, throttle_time_ms=0.4)
        backend.quota_usage.append(used)
    assert [one["client_id"] for one in (await quotas(backend)).rows.values()] == ["most", "least"]


async def test_quotas_that_are_set_have_a_row_each_and_cost_nothing_while_they_stay() -> None:
    backend = MemoryBackend()
    backend.set_quotas(
        {(("client-id", None), ("user", "a,b=c")): {"producer_byte_rate": 2.0, "consumer_byte_rate": 1.0}}
    )
    look = QuotaLimitsLook(backend)
    rows = (await look.look()).rows
    assert {key: (row["name"], row["value"]) for key, row in rows.items()} == {
        "client-id=,user=a%2Cb%3Dc:producer_byte_rate": ("producer_byte_rate", 2.0),
        "client-id=,user=a%2Cb%3Dc:consumer_byte_rate": ("consumer_byte_rate", 1.0),
    }
    assert (await look.look()).rows is rows
    backend.set_quotas({})
    assert (await look.look()).rows == {}


async def test_quotas_that_the_user_may_not_see_are_not_said_to_be_none() -> None:
    look = QuotaLimitsLook(PermittedAdmin(MemoryBackend(), Recorder(), "User:alice", "127.0.0.1"))
    with pytest.raises(ApiError) as refused:
        await look.look()
    assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
