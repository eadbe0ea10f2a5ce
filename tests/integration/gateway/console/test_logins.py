"""The console over a secured cluster: login, sign-out, users and ACLs, and what a user may not do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.browser import WIDE, Window, accessibility
from support.console_actions import done, twin
from support.waiting import until
from tailrace.testing import Cluster

SECRET, CHANGED = "of alice, <secret>", "of alice, changed"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(data_dir=tmp_path_factory.mktemp("logins"), arguments=("--secure",)) as running:
        yield running


@pytest.fixture
def log_in(browser: Any, cluster: Cluster) -> Iterator[Callable[[str, str], Window]]:
    """Windows of users that have logged in; at their end nothing may have been wrong in them."""
    opened: list[Window] = []

    def build(user: str, password: str) -> Window:
        window = Window(browser, cluster.admin, WIDE)
        opened.append(window)
        window.page.goto(window.origin)
        send_login(window, user, password)
        return window

    yield build
    for one in opened:
        one.close()
        assert one.complaints == []


def send_login(window: Window, user: str, password: str) -> None:
    window.page.get_by_label("User").fill(user)
    window.page.get_by_label("Password").fill(password)
    window.page.get_by_role("button", name="Log in").click()


def buttons(window: Window) -> set[str]:
    return {str(text) for text in window.page.locator("main button").all_inner_texts()}


def status_of(window: Window, method: str, path: str) -> int:
    """The status of a request of the page's own session."""
    script = """async ([method, path]) => {
        const { send, pathOf } = await import("/static/console/core/rest.js");
        try { return (await send(pathOf(...path), { method })).status; } catch (error) { return error.status; }
    }"""
    return int(window.page.evaluate(script, [method, path.split("/")]))


def test_a_user_is_made_and_may_what_an_acl_says_and_no_more(
    cluster: Cluster, log_in: Callable[[str, str], Window]
) -> None:
    admin = log_in("admin", (cluster.data_dir / "clients" / "admin.password").read_text().strip())
    page = admin.go("topics")
    for name in ("orders", "secrets"):
        page.get_by_role("button", name="Create a topic").click()
        page.get_by_label("Name", exact=True).fill(name)
        page.get_by_role("button", name="Create", exact=True).click()
        done(admin, f"Topic {name} is created")
        page = admin.go("topics")

    page = admin.go("users")
    page.get_by_role("button", name="Create a user").click()
    page.get_by_label("Name", exact=True).fill("alice")
    page.get_by_label("Password", exact=True).fill(SECRET)
    page.get_by_label("Password again").fill("another")
    assert page.get_by_role("button", name="Create", exact=True).is_disabled()
    page.get_by_label("Password again").fill(SECRET)
    assert SECRET not in twin(admin, "REST") + twin(admin, "CLI")
    assert "tailrace --command-config client.properties user create alice" in twin(admin, "CLI")
    page.get_by_role("button", name="Create", exact=True).click()
    done(admin, "User alice is created.")
    admin.row("Users", "alice")

    page.get_by_role("button", name="Add an ACL").click()
    page.get_by_label("User", exact=True).fill("alice")
    page.get_by_label("Name is").select_option("PREFIXED")
    page.get_by_label("Name", exact=True).fill("ord")
    meaning = page.get_by_label("What it means")
    meaning.get_by_text(
        "User:alice may read: each topic whose name begins with ord. That includes describe."
    ).wait_for()
    meaning.get_by_text("Today: 1 topic, orders.").wait_for()
    assert accessibility(page) == []
    page.locator("dialog").get_by_role("button", name="Add", exact=True).click()
    done(admin, "The ACL is added.")
    assert admin.row("ACLs", "User:alice")[:4] == ["User:alice", "may", "read", "topic ord …"]
    assert accessibility(page) == []

    alice = log_in("alice", SECRET)
    alice.go("topics")
    alice.row("Topics", "orders")
    assert [row[0] for row in alice.rows("Topics")] == ["orders"]
    alice.page.get_by_text("You may not see the state of the cluster").wait_for()
    assert "Users" not in alice.page.locator("nav").inner_text()
    assert not buttons(alice) & {"Create a topic"}
    alice.go("topics/orders")
    alice.row("Partitions", "0")
    assert not buttons(alice) & {"Add partitions", "Reassign", "Trim", "Delete"}
    alice.go("messages/orders")
    alice.page.get_by_text("No record is like that.").wait_for()
    assert "Produce a record" not in buttons(alice)
    for method, path in (("DELETE", "topics/orders"), ("DELETE", "brokers/0"), ("GET", "users"), ("GET", "acls")):
        assert status_of(alice, method, path) == 403, (method, path)
    assert status_of(admin, "GET", "topics/orders") == 200, "it was not deleted"

    page = admin.page
    page.get_by_role("button", name="Change the password of alice").click()
    page.get_by_label("Password", exact=True).fill(CHANGED)
    page.get_by_label("Password again").fill(CHANGED)
    page.get_by_role("button", name="Change", exact=True).click()
    done(admin, "The password of alice is changed.")
    page.get_by_role("button", name="Remove: User:alice may read").click()
    page.locator("dialog").get_by_role("button", name="Remove", exact=True).click()
    done(admin, "The ACL is removed.")
    late = log_in("alice", SECRET)
    late.page.get_by_text("The user or the password is not right.").wait_for()
    send_login(late, "alice", CHANGED)
    late.page.wait_for_selector("h1")
    late.go("topics")
    late.page.get_by_text("No topic yet.").wait_for()
    late.page.get_by_role("link", name="Sign out").click()
    late.page.get_by_role("button", name="Sign out").click()
    late.page.get_by_role("button", name="Log in").wait_for()
    late.page.goto(late.origin)
    late.page.get_by_role("button", name="Log in").wait_for()

    page.get_by_role("button", name="Delete alice").click()
    page.get_by_label("Type the user's name").fill("alice")
    page.locator("dialog").get_by_role("button", name="Delete", exact=True).click()
    done(admin, "User alice is deleted.")
    until(lambda: status_of(admin, "GET", "users/alice") == 404 or None, "the user is gone")


def test_a_user_is_told_which_acls_win_and_that_it_is_about_to_delete_itself(
    cluster: Cluster, log_in: Callable[[str, str], Window]
) -> None:
    admin = log_in("admin", (cluster.data_dir / "clients" / "admin.password").read_text().strip())
    page = admin.go("users")
    page.get_by_role("button", name="Delete admin").click()
    page.get_by_text("This is the user that you are.").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Change the password of admin").click()
    page.get_by_text("You will log in anew with it.").wait_for()
    script = """async (hosts) => {
        const { winners } = await import("/static/console/pages/users/meaning.js");
        const topic = { resource_type: "TOPIC", resource_name: "o", pattern_type: "LITERAL" };
        const acl = (host, permission) => ({ ...topic, host, permission, principal: "User:a", operation: "READ" });
        return hosts.map(([allowed, denied]) => winners(acl(allowed, "ALLOW"), [acl(denied, "DENY")]).length);
    }"""
    one, other = "10.0.0.1", "10.0.0.2"
    assert page.evaluate(script, [[one, one], [one, "*"], ["*", one], [one, other]]) == [1, 1, 1, 0]
