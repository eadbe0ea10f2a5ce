"""Actions of the console on a cluster of processes. What was done is asked of the cluster afterwards, and undone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata, TopicPartition

from support.browser import WIDE, Window, accessibility
from support.console_actions import Rest, cli, done, twin
from support.ports import free_ports
from support.waiting import HUNG_S, until
from tailrace.testing import Cluster

RECORDS = 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"offsets.topic.num.partitions": "2"}
    folder = tmp_path_factory.mktemp("console")
    with Cluster(brokers=2, port=free_ports(2), data_dir=folder, settings=settings) as started:
        started.create_topic("orders", 2)
        with KafkaProducer(bootstrap_servers=started.bootstrap) as producer:
            for n in range(RECORDS):
                producer.send("orders", f"order {n}".encode(), key=str(n).encode(), partition=n % 2).get(HUNG_S)
        with KafkaConsumer(bootstrap_servers=started.bootstrap, group_id="billing", enable_auto_commit=False) as reader:
            reader.commit({TopicPartition("orders", 0): OffsetAndMetadata(4, "", -1)})
        yield started


@pytest.fixture
def window(browser: Any, cluster: Cluster) -> Iterator[Window]:
    opened = Window(browser, cluster.admin.removeprefix("http://"), WIDE)
    yield opened
    opened.close()
    assert opened.complaints == []


@pytest.fixture(scope="module")
def rest(cluster: Cluster) -> Rest:
    return Rest(cluster)


def test_a_topic_is_created_changed_trimmed_and_deleted(window: Window, cluster: Cluster, rest: Rest) -> None:
    page = window.go("topics")
    page.get_by_role("button", name="Create a topic").click()
    page.get_by_label("Name", exact=True).fill("invoices")
    page.get_by_label("Partitions").fill("3")
    page.get_by_label("Configs").fill("retention.ms=86400000")
    assert twin(window, "CLI") == "tailrace topic create invoices -p 3 -c retention.ms=86400000"
    assert '"topic_name":"invoices"' in twin(window, "REST")
    page.get_by_role("button", name="Create", exact=True).click()
    done(window, "Topic invoices is created with 3 partitions")
    assert rest.get("topics/invoices")["partitions_count"] == 3
    assert rest.get("topics/invoices/configs/retention.ms")["value"] == "86400000"

    page.get_by_role("button", name="Add partitions").click()
    page.locator("dialog").get_by_label("Partitions", exact=True).fill("4")
    page.get_by_role("button", name="Add", exact=True).click()
    done(window, "invoices has 4 partitions.")
    assert rest.get("topics/invoices")["partitions_count"] == 4

    page.get_by_role("button", name="Configs").click()
    page.get_by_label("retention.ms", exact=True).fill("1000")
    page.get_by_role("button", name="Review 1 change").click()
    page.get_by_text("The cluster takes this.").wait_for()
    assert page.locator(".diff del").inner_text().strip() == "- retention.ms=86400000 (dynamic topic config)"
    assert page.locator(".diff ins").inner_text().strip() == "+ retention.ms=1000"
    assert twin(window, "CLI") == "tailrace config set topic invoices retention.ms=1000"
    page.get_by_role("button", name="Apply").click()
    done(window, "1 config of invoices is changed.")
    assert rest.get("topics/invoices/configs/retention.ms")["value"] == "1000"
    page.get_by_label("retention.ms", exact=True).fill("never")
    page.get_by_role("button", name="Review 1 change").click()
    page.locator("dialog p.bad").wait_for()
    assert page.get_by_role("button", name="Apply").is_disabled(), "the cluster was asked before"
    page.get_by_role("button", name="Cancel").click()

    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_label("Type the topic's name").fill("invoice")
    assert page.locator("dialog button.danger, dialog button[type=submit]").first.is_disabled()
    page.get_by_label("Type the topic's name").fill("invoices")
    page.locator("dialog").get_by_role("button", name="Delete", exact=True).click()
    done(window, "Topic invoices is deleted.")
    assert rest.get("topics/invoices") is None
    assert "invoices" not in cli(cluster, "tailrace topic list")


def test_the_commands_beside_an_action_do_the_same(window: Window, cluster: Cluster, rest: Rest) -> None:
    page = window.go("topics")
    page.get_by_role("button", name="Create a topic").click()
    page.get_by_label("Name", exact=True).fill("twins")
    page.get_by_label("Configs").fill("retention.ms=5000")
    by_rest, by_cli = twin(window, "REST"), twin(window, "CLI")
    page.keyboard.press("Escape")
    subprocess.run(["bash", "-c", by_rest.replace("curl", "curl -sf", 1)], capture_output=True, check=True)
    assert rest.get("topics/twins/configs/retention.ms")["value"] == "5000"
    cli(cluster, "tailrace topic delete --yes twins")
    cli(cluster, by_cli)
    assert rest.get("topics/twins/configs/retention.ms")["value"] == "5000"
    cli(cluster, "tailrace topic delete --yes twins")
    assert rest.get("topics/twins") is None


def test_a_topic_is_trimmed_below_an_offset(window: Window, cluster: Cluster, rest: Rest) -> None:
    page = window.go("topics/orders")
    assert until(lambda: window.row("Partitions", "1")[8].isdigit(), "offsets")
    page.get_by_role("button", name="Trim").click()
    page.get_by_label("Partition", exact=True).select_option("1")
    page.get_by_label("Delete records before offset").fill("3")
    page.get_by_text("3 records of 1 partition will be gone for good.").wait_for()
    assert twin(window, "CLI") == "tailrace topic delete-records orders -p 1 --before 3 --yes"
    page.get_by_label("Type the topic's name").fill("orders")
    page.locator("dialog").get_by_role("button", name="Trim", exact=True).click()
    done(window, "orders is trimmed: 1 partition begins at 3.")
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap) as reader:
        begin = reader.beginning_offsets([TopicPartition("orders", 0), TopicPartition("orders", 1)])
    assert sorted(begin.values()) == [0, 3]


def test_a_group_is_late_for_a_reason_and_reset_after_the_plan_was_seen(
    window: Window, cluster: Cluster, rest: Rest
) -> None:
    page = window.go("groups")
    assert until(lambda: window.row("Groups", "billing")[3] == "6", "the lag")
    page.get_by_role("link", name="billing").click()
    page.get_by_text("It has no member: no record is read.").wait_for()
    until(lambda: window.row("Partitions of the group", "orders-0")[4] == "6", "the partition's lag")
    page.get_by_role("button", name="Reset offsets").click()
    commit = page.get_by_role("button", name="Commit the plan")
    assert commit.is_disabled()
    page.get_by_label("To", exact=True).select_option("OFFSET")
    page.get_by_label("an offset").fill("9")
    page.get_by_role("button", name="Show the plan").click()
    assert window.row("The plan", "orders-0") == ["orders-0", "4", "9", "+5"]
    lag = f"consumer-groups/billing/lags/{quote('orders')}/partitions/0"
    assert rest.get(lag)["current_offset"] == 4, "nothing is changed by the plan"
    assert twin(window, "CLI") == "tailrace group reset billing --to-offset 9 --execute"
    with page.expect_request(lambda asked: asked.url.endswith("offsets:reset")) as committed:
        commit.click()
    seen = [{"topic_name": "orders", "partition_id": 0, "offset": 9}]
    assert committed.value.post_data_json == {"to": "OFFSETS", "offsets": seen}, "as they were shown"
    done(window, "1 offset of billing is reset.")
    assert rest.get(lag)["current_offset"] == 9
    cli(cluster, "tailrace group reset billing --to-offset 4 --execute")
    assert until(lambda: window.row("Partitions of the group", "orders-0")[4] == "6", "the lag again")


@pytest.mark.parametrize(
    ("role", "number", "sentence"),
    [
        ("broker", 1, "Broker 1 does not answer."),
        ("coordinator", 0, "Coordinator 0 does not answer."),
        ("quota", 0, "Quota service 0 does not answer."),
        ("controller", 0, "No controller answers: topics, configs and leaders cannot change."),
    ],
)
def test_a_role_that_stands_still_is_named_and_forgotten_when_it_goes_on(
    window: Window, cluster: Cluster, role: str, number: int, sentence: str
) -> None:
    page = window.go("topics")
    window.verdict("good")
    with cluster.paused(role, number):
        page.get_by_text(sentence).first.wait_for()
        window.verdict("bad")
    window.verdict("good")


def test_a_message_is_found_by_its_key_and_the_address_shows_the_same(window: Window) -> None:
    page = window.go("messages/orders")
    assert window.row("Records", "order 19")[3] == "order 19", "the newest first"
    page.get_by_label("From").select_option("earliest")
    page.get_by_label("Key is").fill("7")
    page.get_by_text("1 record found, looked at").wait_for()
    assert window.row("Records", "order 7")[2:4] == ["7", "order 7"]
    page.get_by_label("Key is").fill("")
    page.get_by_label("Contains").fill("order 12")
    page.get_by_text("1 record found, looked at").wait_for()
    assert window.row("Records", "order 12")[2] == "12"
    assert "text=order+12" in page.url
    page.reload()
    assert window.row("Records", "order 12")[2] == "12"


def test_messages_are_read_from_an_offset_and_from_a_moment(window: Window) -> None:
    page = window.go("messages/orders?start=offset&at=4&partition=0")
    page.get_by_text("6 records found, up to the end.").wait_for()
    assert [row[0] for row in window.rows("Records")] == [f"0:{n}" for n in range(4, 10)]
    page.get_by_label("From").select_option("time")
    page.get_by_label("a moment (UTC)").fill("2000-01-01T00:00")
    page.get_by_text("10 records found, up to the end.").wait_for()


def test_a_record_is_produced_shown_whole_and_read_by_a_client(window: Window, cluster: Cluster) -> None:
    cluster.create_topic("made", 1)
    page = window.go("messages/made")
    page.get_by_role("button", name="Produce a record").click()
    page.get_by_label("Key", exact=True).fill("<b>key")
    page.get_by_label("Value", exact=True).fill('{"n":12345678901234567890,"list":[]}')
    page.get_by_label("Headers").fill('trace=é1\njson={"n":12345678901234567890}')
    by_cli = twin(window, "CLI")
    page.get_by_role("button", name="Produce", exact=True).click()
    done(window, "The record is at offset 0 of made-0.")
    window.row("Records", "<b>key")
    page.get_by_role("button", name="Open 0:0").click()
    page.locator("dialog h2", has_text="made-0 at offset 0").wait_for()
    shown = page.locator('dialog pre[aria-label="Value"]').inner_text()
    assert shown == '{\n  "n": 12345678901234567890,\n  "list": []\n}'
    assert page.locator('dialog pre[aria-label="Header trace"]').inner_text() == "é1"
    assert page.locator('dialog pre[aria-label="Header json"]').inner_text() == '{\n  "n": 12345678901234567890\n}'
    assert accessibility(page) == []
    page.get_by_role("button", name="Close").click()
    cli(cluster, by_cli)
    page.get_by_role("button", name="Produce a record").click()
    page.get_by_label("Key", exact=True).fill("<b>key")
    page.get_by_label("a tombstone, without a value").check()
    page.get_by_role("button", name="Produce", exact=True).click()
    done(window, "The record is at offset 2 of made-0.")
    assert window.row("Records", "tombstone")[0] == "0:2"
    headers = [("trace", "é1".encode()), ("json", b'{"n":12345678901234567890}')]
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as reader:
        reader.assign([TopicPartition("made", 0)])
        read = [next(reader) for _ in range(3)]
    assert [one.key for one in read] == [b"<b>key"] * 3
    assert [one.value for one in read] == [b'{"n":12345678901234567890,"list":[]}'] * 2 + [None]
    assert [list(one.headers) for one in read[:2]] == [headers] * 2
    cluster.delete_topic("made")


def test_live_messages_come_as_they_are_produced_and_only_those_asked_for(window: Window, cluster: Cluster) -> None:
    cluster.create_topic("came", 1)  # of its own: other tests know how many records orders has
    page = window.go("messages/came?start=latest&text=live")
    page.get_by_text("Live: 0 records have come").wait_for()
    with KafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:

        def comes() -> bool:
            producer.send("came", b"other", partition=0).get(HUNG_S)
            producer.send("came", b"a live one", partition=0).get(HUNG_S)
            return any("a live one" in row[3] for row in window.rows("Records") if len(row) > 3)

        until(comes, "a live record")

    def whole() -> list[list[str]] | None:
        rows = window.rows("Records")
        return rows if all(len(row) > 3 for row in rows) else None  # one may be drawn anew while it is read

    assert {row[3] for row in until(whole, "whole rows")} == {"a live one"}
    cluster.delete_topic("came")


def test_the_commands_of_a_view_read_the_same(window: Window, cluster: Cluster) -> None:
    page = window.go("messages/orders?start=offset&at=2&partition=0")
    window.row("Records", "order 4")
    page.locator("main summary").click()
    commands = {
        name: page.locator("main .twin", has_text=name).locator("code").first.inner_text() for name in ("REST", "CLI")
    }
    by_rest = subprocess.run(
        ["bash", "-c", commands["REST"].replace("curl", "curl -sf", 1)], capture_output=True, check=True
    )
    assert [one["offset"] for one in json.loads(by_rest.stdout)["data"]][:2] == [2, 3]
    by_cli = [json.loads(line) for line in cli(cluster, commands["CLI"]).splitlines()]
    assert [one["offset"] for one in by_cli][:2] == [2, 3]
