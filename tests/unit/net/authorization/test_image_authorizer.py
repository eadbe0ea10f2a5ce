"""The authorizer of a role follows the ACLs of the image, and forgets what it remembered with the next ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import pytest
import structlog
from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from support.access import random_acls
from support.sessions import Holder
from tailrace.access.acls import Acl, AclPermission, PatternType
from tailrace.access.authorizer import Authorizer, Denied
from tailrace.access.image import AclImage, Patterns
from tailrace.access.resources import AclOperation, ResourceType
from tailrace.access.standard import StandardAuthorizer
from tailrace.clock import Clock
from tailrace.config import Config, ConfigError
from tailrace.metadata.image import MetadataImage
from tailrace.net.authorization import image_authorizer
from tailrace.net.authorization.denials import Denials
from tailrace.net.authorization.image_authorizer import ImageAuthorizer
from tailrace.net.authorization.opening import STANDARD, open_authorizer
from tailrace.net.identity import Identity
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.limits.seldom import LINES
from tailrace.net.session import ClientSession
from tailrace.runtime.clock import SystemClock
from tailrace.wire.apis import ApiKey

READ = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", AclOperation.READ, AclPermission.ALLOW)
KEY = (False, b"t")


class Source:
    def __init__(self, *acls: Acl) -> None:
        self.image = MetadataImage(acls=AclImage().changed(acls))

    def change(self, added: tuple[Acl, ...] = (), removed: tuple[Acl, ...] = ()) -> None:
        self.image = replace(self.image, acls=self.image.acls.changed(added, removed))


def authorizer_of(source: Source) -> ImageAuthorizer:
    return ImageAuthorizer(source, frozenset(), denials_of(CollectorRegistry()), allow_everyone=False)


def denials_of(registry: CollectorRegistry) -> Denials:
    return Denials(registry, structlog.get_logger(), lambda: 0.0)


def session_of(authorizer: ImageAuthorizer, principal: str = "User:a") -> ClientSession:
    identity = Identity(principal=principal, client_host="10.0.0.1", listener="CLIENT")
    return ClientSession(Holder(), RoleMemory(), identity, authorizer=authorizer)


def test_a_change_holds_from_the_next_question_on() -> None:
    source = Source()
    session = session_of(authorizer_of(source))
    assert not session.authorized(AclOperation.READ, ResourceType.TOPIC, "t")
    source.change(added=(READ,))
    assert session.authorized(AclOperation.READ, ResourceType.TOPIC, "t")
    source.change(removed=(READ,))
    assert not session.authorized(AclOperation.READ, ResourceType.TOPIC, "t")


def test_what_was_allowed_is_remembered_until_the_acls_change() -> None:
    source = Source(READ)
    session = session_of(authorizer_of(source))
    assert session.may(AclOperation.READ, KEY, "t") and not session.may(AclOperation.WRITE, KEY, "t")
    assert session.grants.rules is source.image.acls
    assert (session.grants.read, session.grants.write) == ({KEY}, set())
    source.image = replace(source.image, offset=7)  # another image, the same ACLs
    assert session.grants.rules is source.image.acls
    source.change(removed=(READ,))
    assert session.grants.rules is not source.image.acls
    assert not session.may(AclOperation.READ, KEY, "t")


def test_clients_share_nothing_of_each_other() -> None:
    authorizer = authorizer_of(Source(READ))
    assert session_of(authorizer).may(AclOperation.READ, KEY, "t")
    other = session_of(authorizer, "User:b")
    assert not other.may(AclOperation.READ, KEY, "t") and not other.grants.read


def test_an_identity_that_changes_has_no_grants() -> None:
    session = session_of(authorizer_of(Source(READ)))
    assert session.may(AclOperation.READ, KEY, "t")
    session.identify(Identity(principal="User:b", listener="CLIENT"))
    assert session.grants.rules is None


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_authorizer, "MAX_GRANTS", 10)
    session = session_of(authorizer_of(Source(replace(READ, name="*"))))
    first = session.grants
    for number in range(100):
        assert session.may(AclOperation.READ, (False, b"%d" % number), str(number))
        assert len(session.grants.read) <= 10
        first = first if first.read else session.grants
    assert first.rules is None  # one that was dropped holds no longer


class CountedAcls(AclImage):
    """Counts the questions by type, each of which looks at all ACLs."""

    __slots__ = ("looks",)
    looks: int

    def of(self, resource_type: ResourceType) -> Patterns:
        object.__setattr__(self, "looks", getattr(self, "looks", 0) + 1)
        return super().of(resource_type)


def test_a_verdict_by_type_is_remembered_until_the_acls_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_authorizer, "MAX_BY_TYPE", 10)
    acls = CountedAcls(AclImage().changed([replace(READ, operation=AclOperation.WRITE)]).types)
    source = Source()
    source.image = replace(source.image, acls=acls)
    authorizer = authorizer_of(source)
    session, other = session_of(authorizer), session_of(authorizer, "User:b")
    question = AclOperation.WRITE, ResourceType.TOPIC
    verdicts = [(session.authorized_by_resource_type(*question), other.authorized_by_resource_type(*question))]
    looks = acls.looks
    verdicts += [
        (session.authorized_by_resource_type(*question), other.authorized_by_resource_type(*question)) for _ in range(9)
    ]
    assert verdicts == [(True, False)] * 10 and acls.looks == looks
    for number in range(10):
        session_of(authorizer, f"User:{number}").authorized_by_resource_type(*question)
    assert not other.authorized_by_resource_type(*question) and acls.looks > looks  # bounded, so forgotten once
    source.change(removed=(replace(READ, operation=AclOperation.WRITE),))
    assert not session.authorized_by_resource_type(*question)


@pytest.mark.parametrize("seed", range(20))
def test_verdicts_are_those_of_the_standard_authorizer(seed: int) -> None:
    rng = Random(seed)
    source = Source()
    authorizer = authorizer_of(source)
    for _ in range(10):
        source.change(added=(random_acls.acl(rng),))
        standard = StandardAuthorizer(source.image.acls)
        asked = random_acls.question(rng)
        client = asked.principal, asked.host, asked.operation, asked.resource_type, asked.name
        assert authorizer.authorize(*client) == standard.authorize(*client)


def configured(**values: str) -> Config:
    return Config.load("broker", overrides={name.replace("_", "."): value for name, value in values.items()})


@dataclass
class Environment:
    registry: CollectorRegistry
    clock: Clock
    log: FilteringBoundLogger


def opened_by(config: Config, *acls: Acl) -> Authorizer | None:
    return open_authorizer(
        config, Source(*acls), Environment(CollectorRegistry(), SystemClock(), structlog.get_logger())
    )


def test_what_is_refused_is_counted_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    registry = CollectorRegistry()
    authorizer = ImageAuthorizer(Source(), frozenset(), denials_of(registry), allow_everyone=False)
    session = session_of(authorizer)
    for _ in range(30):
        session.on_denied(ApiKey.CREATE_TOPICS, Denied(AclOperation.CREATE, ResourceType.TOPIC, "t"))
    labels = {"request": "CreateTopics", "resource_type": "topic"}
    assert registry.get_sample_value("tailrace_denied_requests_total", labels) == 30
    lines = [line for line in capsys.readouterr().out.splitlines() if "authorization failed" in line]
    assert len(lines) == LINES
    assert all(word in lines[0] for word in ("User:a", "10.0.0.1", "CreateTopics", "CREATE", "TOPIC"))


def test_the_config_names_the_authorizer() -> None:
    assert opened_by(configured()) is None
    opened = opened_by(configured(authorizer_class_name=STANDARD, super_users="User:a; User:b"))
    assert opened is not None
    client = "10.0.0.1", AclOperation.ALTER, ResourceType.CLUSTER, "kafka-cluster"
    assert [opened.authorize(f"User:{name}", *client) for name in "abc"] == [True, True, False]
    everyone = configured(authorizer_class_name=STANDARD, allow_everyone_if_no_acl_found="true")
    opened = opened_by(everyone, READ)
    assert opened is not None
    topic = "10.0.0.1", AclOperation.READ, ResourceType.TOPIC
    assert [opened.authorize("User:b", *topic, name) for name in ("t", "u")] == [False, True]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"authorizer_class_name": "kafka.security.authorizer.AclAuthorizer"}, "is not known; it may be"),
        ({"authorizer_class_name": STANDARD, "super_users": "admin"}, "which has no type: write User:admin"),
    ],
)
def test_settings_that_cannot_be_end_the_start(values: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        opened_by(configured(**values))
    assert why in str(refused.value)
