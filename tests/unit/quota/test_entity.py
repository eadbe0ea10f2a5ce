"""Accounts of long names: a client chooses its id, and thousands of accounts are kept, sent and shown."""

import pytest

from tailrace.quota.entity import CLIENT_ID, NAME_CHARS_MAX, USER, ClientQuotas, QuotaEntity, QuotaKind, text_of

LONG = "x" * 32_000
RATE = {"producer_byte_rate": 7.0}
KIND = QuotaKind.PRODUCE


@pytest.mark.parametrize(
    "entity",
    [
        ((CLIENT_ID, None),),
        ((CLIENT_ID, None), (USER, None)),
        ((CLIENT_ID, None), (USER, "alice")),
        ((CLIENT_ID, "app"), (USER, None)),
        ((USER, None),),
    ],
)
def test_an_account_of_a_default_has_no_long_name_and_is_its_clients_alone(entity: QuotaEntity) -> None:
    quotas = ClientQuotas({entity: RATE})
    user = dict(entity).get(USER) or LONG
    ids = ["app"] if (CLIENT_ID, "app") in entity else [LONG, LONG + "y", "y" + LONG]
    accounts = set()
    for client_id in ids:
        found = quotas.of_client(user, client_id, KIND)
        assert found is not None
        account, rate = found
        assert rate == quotas.of_account(account, KIND) == 7.0
        assert all(name is not None and len(name) <= NAME_CHARS_MAX for _, name in account)
        assert quotas.of_client(user, client_id, KIND) == found
        accounts.add(account)
    assert len(accounts) == (len(ids) if entity[0][0] == CLIENT_ID else 1)


def test_a_long_name_with_a_quota_of_its_own_is_kept() -> None:
    quotas = ClientQuotas({((CLIENT_ID, LONG),): RATE, ((CLIENT_ID, None),): {"producer_byte_rate": 1.0}})
    account = ((CLIENT_ID, LONG),)
    assert quotas.of_client("", LONG, KIND) == (account, 7.0)
    assert quotas.of_account(account, KIND) == 7.0


def test_a_name_of_usual_length_is_its_account() -> None:
    name = "n" * NAME_CHARS_MAX
    assert ClientQuotas({((CLIENT_ID, None),): RATE}).of_client("", name, KIND) == (((CLIENT_ID, name),), 7.0)


@pytest.mark.parametrize(
    ("entity", "text"),
    [
        ((("client-id", "app"), ("user", None)), "client-id=app, user=<default>"),
        ((("client-id", "<default>"),), r"client-id=\<default>"),
        ((("client-id", r"\<default>"),), r"client-id=\\<default>"),
        ((("client-id", "a, user=b"),), r"client-id=a\, user=b"),
        ((("user", "CN=a,O=b"),), "user=CN=a,O=b"),
        ((("client-id", "a\0b"),), r"client-id=a\0b"),
    ],
)
def test_no_two_entities_have_the_same_text(entity: QuotaEntity, text: str) -> None:
    assert text_of(entity) == text
