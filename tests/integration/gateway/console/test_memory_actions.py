"""Actions of the console on a cluster in memory, which is asked afterwards."""

from __future__ import annotations

from typing import Any

from support.browser import Window, accessibility
from support.console_actions import done, twin
from support.rest_backend import MemoryBackend
from tailrace.metadata.image import PartitionImage
from tailrace.wire.hot.producers import DescribedProducer, PartitionProducers, pack
from tailrace.wire.messages import DescribeOpenTransactionsResponse


def test_a_transaction_that_hangs_is_aborted_once_its_partition_was_typed(
    window: Window, backend: MemoryBackend
) -> None:
    row = DescribeOpenTransactionsResponse.OpenTransaction
    place: Any = {"topic_name": "orders", "partition_index": 1, "producer_epoch": 3, "start_offset": 61}
    backend.opened[1] = [row(**place, producer_id=7, is_late=True, is_hanging=True), row(**place, producer_id=8)]
    backend.described = PartitionProducers(1, 0, rows=pack([DescribedProducer(7, 3, 0, 0, 2, 61)]))
    page = window.go("transactions")
    window.row("Open transactions", "hanging")
    page.get_by_role("button", name="Abort").click()  # the one that there is: of the transaction that hangs
    assert twin(window, "CLI") == "tailrace transaction abort --topic orders --partition 1 --start-offset 61"
    assert '{"producer_id":7,"start_offset":61}' in twin(window, "REST")
    assert accessibility(page) == []
    page.get_by_label("Type the partition's name").fill("orders-0")
    button = page.locator("dialog").get_by_role("button", name="Abort", exact=True)
    assert button.is_disabled()
    page.get_by_label("Type the partition's name").fill("orders-1")
    button.click()
    done(window, "The transaction of producer 7 in orders-1 is aborted.")
    assert [one.producer_id for one in backend.opened[1]] == [8]


def test_what_hangs_no_longer_is_not_aborted_and_the_dialog_says_so(window: Window, backend: MemoryBackend) -> None:
    row = DescribeOpenTransactionsResponse.OpenTransaction
    place: Any = {"topic_name": "orders", "partition_index": 1, "producer_id": 7, "start_offset": 61}
    backend.opened[1] = [row(**place, is_late=True, is_hanging=True)]
    page = window.go("transactions")
    page.get_by_role("button", name="Abort").click()
    page.get_by_label("Type the partition's name").fill("orders-1")
    backend.opened[1] = []
    page.locator("dialog").get_by_role("button", name="Abort", exact=True).click()
    page.locator("dialog").get_by_text("orders-1 has no open transaction of producer 7 from 61 on.").wait_for()


def test_a_quota_is_set_changed_and_removed(window: Window, backend: MemoryBackend) -> None:
    page = window.go("quotas")
    page.get_by_text("No quota is set.").wait_for()
    page.get_by_role("button", name="Set a quota").click()
    page.get_by_label("Of", exact=True).select_option("user, client-id")
    page.get_by_label("Name of the user").fill("al<b>ice")
    page.get_by_label("Limit", exact=True).fill("1000")
    assert twin(window, "CLI") == "tailrace quota set --user 'al<b>ice' --default-client-id producer_byte_rate=1000"
    assert accessibility(page) == []
    page.get_by_role("button", name="Set", exact=True).click()
    done(window, "producer_byte_rate of user al<b>ice, every client id is 1000.")
    entity = (("client-id", None), ("user", "al<b>ice"))
    assert backend.image().quotas == {entity: {"producer_byte_rate": 1000.0}}
    assert window.row("Quotas", "al<b>ice")[:3] == ["every client id, user al<b>ice", "producer_byte_rate", "1,000"]

    page.get_by_role("button", name="Change producer_byte_rate").click()
    page.get_by_label("Limit", exact=True).fill("2000.5")
    assert page.locator(".diff del").inner_text() == "- producer_byte_rate=1000"
    page.get_by_role("button", name="Set", exact=True).click()
    done(window, "is 2000.5.")
    assert backend.image().quotas == {entity: {"producer_byte_rate": 2000.5}}

    page.get_by_role("button", name="Remove producer_byte_rate").click()
    assert twin(window, "CLI") == "tailrace quota delete --default-client-id --user 'al<b>ice' producer_byte_rate"
    page.locator("dialog").get_by_role("button", name="Remove", exact=True).click()
    done(window, "is removed.")
    assert backend.image().quotas == {}


def test_a_reassignment_shows_how_far_it_is_and_is_cancelled(window: Window, backend: MemoryBackend) -> None:
    moving = PartitionImage((0, 1), (0,), 0, 0, 0, adding_replicas=(1,), removing_replicas=(0,))
    backend.set_partitions("moving", moving)
    backend.sizes = {(0, "moving", 0): 1000, (1, "moving", 0): 250}
    page = window.go("brokers")
    assert window.row("Reassignments", "moving-0")[:4] == ["moving-0", "1", "0", "25 %"]
    assert window.row("Brokers", "localhost:9092")[6:] == ["3", "1"], "in sync, leaving"
    page.get_by_role("button", name="Cancel moving-0").click()
    assert '"topic":"moving","partition":0' in twin(window, "CLI")
    page.get_by_role("button", name="Go back").click()
    done(window, "The reassignment of moving-0 is cancelled.")
    assert backend.image().topics["moving"].partitions[0].replicas == (0,)
    page.get_by_text("Nothing is being moved.").wait_for()


def test_a_broker_that_is_emptied_says_how_many_partitions_are_left(window: Window, backend: MemoryBackend) -> None:
    leaving = PartitionImage((1, 0), (0, 1), 0, 0, 0, adding_replicas=(1,), removing_replicas=(0,))
    backend.set_partitions("orders", leaving, PartitionImage((1,), (1,), 1, 0, 0))
    page = window.go("brokers/0")
    page.get_by_text("It is being emptied: 1 partition of 1 is on the way to other brokers.").wait_for()
    backend.set_partitions("orders", PartitionImage((1,), (1,), 1, 0, 0), PartitionImage((1,), (1,), 1, 0, 0))
    page.get_by_text("It holds no partition.").wait_for()
