"""The chart's network policies: who reaches whom, judged by Kubernetes' rules. No network enforces them here."""

from __future__ import annotations

import itertools

import pytest

from support.helm import BUILD_S, CHART, Manifest, of_kind, render
from support.network_policies import Outside, Pod, may_connect

pytestmark = pytest.mark.timeout(BUILD_S)
ROLES = ("controller", "broker", "coordinator", "quota", "gateway")
INTERNAL, HEALTH, ADMIN, FIRST = 9190, 9404, 8080, 9092
STRANGER = Pod({"app": "shop"}, "elsewhere")
DNS = Pod({"k8s-app": "kube-dns"}, "kube-system")


@pytest.fixture(scope="module")
def open_to_clients() -> list[Manifest]:
    """With the chart's own stores and its own lists."""
    return render(values={"networkPolicy": {"enabled": True}})


@pytest.fixture(scope="module")
def closed() -> list[Manifest]:
    """With every list of one's own."""
    return render("-f", str(CHART / "ci" / "closed-values.yaml"))


def pod(manifests: list[Manifest], component: str) -> Pod:
    """With the labels that the chart gives it."""
    for kind in ("StatefulSet", "Deployment", "Job"):
        if found := of_kind(manifests, kind).get(f"r-tailrace-{component}"):
            return Pod(found["spec"]["template"]["metadata"]["labels"])
    raise KeyError(component)


def test_without_being_asked_for_there_is_none() -> None:
    assert not of_kind(render(), "NetworkPolicy")


def test_services_meet_and_nobody_else_comes_in(open_to_clients: list[Manifest]) -> None:
    pods = {role: pod(open_to_clients, role) for role in ROLES}
    for one, other in itertools.product(ROLES, ROLES):
        assert may_connect(open_to_clients, pods[one], pods[other], INTERNAL), (one, other)
    for intruder in (STRANGER, Pod({"app": "shop"}), pod(open_to_clients, "redis"), Outside("10.9.9.9")):
        for role in ROLES:
            assert not may_connect(open_to_clients, intruder, pods[role], INTERNAL), (intruder, role)


@pytest.mark.parametrize("role", ROLES)
def test_a_service_reaches_names_and_nothing_that_it_has_no_use_for(open_to_clients: list[Manifest], role: str) -> None:
    service = pod(open_to_clients, role)
    for protocol in ("UDP", "TCP"):
        assert may_connect(open_to_clients, service, DNS, 53, protocol)
    assert not may_connect(open_to_clients, service, STRANGER, 80)
    # The zone of a broker's node.
    assert may_connect(open_to_clients, service, Outside("10.0.0.1"), 443) is (role == "broker")


@pytest.mark.parametrize("role", ROLES)
def test_metrics_are_for_the_one_who_collects_them(
    open_to_clients: list[Manifest], closed: list[Manifest], role: str
) -> None:
    for manifests, namespace in ((open_to_clients, "monitoring"), (closed, "observability")):
        service = pod(manifests, role)
        assert may_connect(manifests, Pod({}, namespace), service, HEALTH)
        assert not may_connect(manifests, STRANGER, service, HEALTH)
        assert not may_connect(manifests, Pod({}, namespace), service, INTERNAL)


def test_everybody_may_be_a_client_unless_somebody_is_named(
    open_to_clients: list[Manifest], closed: list[Manifest]
) -> None:
    customer = Pod({"kafka": "client"}, "shop")
    for source, named in (
        (customer, True),
        (Outside("10.7.0.9"), True),
        (STRANGER, False),
        (Outside("1.1.1.1"), False),
    ):
        for port in (FIRST, FIRST + 2):
            assert may_connect(open_to_clients, source, pod(open_to_clients, "gateway"), port)
        for port in (FIRST, FIRST + 4):
            assert may_connect(closed, source, pod(closed, "gateway"), port) is named, source
    assert not may_connect(closed, customer, pod(closed, "gateway"), FIRST + 5)  # there are five brokers
    assert not may_connect(closed, customer, pod(closed, "broker"), FIRST)


@pytest.mark.parametrize("component", ["broker", "scale-down", "scale-down-forget"])
def test_what_asks_a_gateway_before_brokers_stop_reaches_it(closed: list[Manifest], component: str) -> None:
    assert may_connect(closed, pod(closed, component), pod(closed, "gateway"), FIRST)


def test_the_admin_port_is_for_the_namespace_or_for_nobody(
    open_to_clients: list[Manifest], closed: list[Manifest]
) -> None:
    neighbour = Pod({"app": "shop"})
    assert may_connect(open_to_clients, neighbour, pod(open_to_clients, "gateway"), ADMIN)
    assert not may_connect(open_to_clients, STRANGER, pod(open_to_clients, "gateway"), ADMIN)
    assert not may_connect(closed, neighbour, pod(closed, "gateway"), ADMIN)


def test_a_store_is_for_the_service_that_keeps_its_state_there(open_to_clients: list[Manifest]) -> None:
    for store, port, owner in (("postgresql", 5432, "controller"), ("redis", 6379, "quota")):
        target = pod(open_to_clients, store)
        reached = [role for role in ROLES if may_connect(open_to_clients, pod(open_to_clients, role), target, port)]
        assert reached == [owner]
        assert not may_connect(open_to_clients, Pod({"app": "shop"}), target, port)


def test_stores_of_ones_own_are_where_one_says(closed: list[Manifest]) -> None:
    controller, quota = pod(closed, "controller"), pod(closed, "quota")
    assert may_connect(closed, controller, Outside("10.1.2.3"), 5432)
    assert not may_connect(closed, controller, Outside("10.1.2.4"), 5432)
    assert may_connect(closed, quota, Outside("10.200.0.1"), 6380)  # a port and no `to`
    assert not may_connect(closed, quota, Outside("10.200.0.1"), 6379)
