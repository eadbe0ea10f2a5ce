"""ssl.principal.mapping.rules (KIP-371); the rules and names are those of Kafka's documentation."""

from __future__ import annotations

import pytest

from tailrace.config import ConfigError
from tailrace.net.tls.principal_rules import NoRuleFits, PrincipalRules

RULES = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U"
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown", "serviceuser"),
        ("CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
        ("O=x,CN=duke", "DUKE"),
    ],
)
def test_the_first_rule_that_fits_names_the_user(subject: str, name: str) -> None:
    assert PrincipalRules(RULES).name(subject) == name


def test_without_a_rule_that_fits_a_client_is_refused_unless_default_is_last() -> None:
    with pytest.raises(NoRuleFits):
        PrincipalRules(RULES).name("O=x")
    assert PrincipalRules(f"{RULES} , DEFAULT").name("O=x") == "O=x"
    assert PrincipalRules("DEFAULT").name("CN=a") == "CN=a"


def test_replacements_are_javas() -> None:
    assert PrincipalRules(r"RULE:CN=(.*)/\$1-$1-$7/").name("CN=a") == "$1-a-$7"


@pytest.mark.parametrize("rules", ["RULE:a/b", "NONE", "DEFAULT x", "RULE:(/b/", "RULE:(?=a)/b/"])
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules(rules)


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("RULE:CN=(.*?),OU=(.*?)/$2@$1/", "@bobeng,O=x"),
        ("RULE:^.*$/all/", "all"),
        ("RULE:.*/all/", "allall"),
        (r"RULE:CN=(\w+),.*/$1/", "bob"),
    ],
)
def test_a_name_is_that_of_javas_replace_all(rule: str, name: str) -> None:
    """Kafka asks whether the whole subject matches, then calls replaceAll: names of Java 17."""
    assert PrincipalRules(rule).name("CN=bob,OU=eng,O=x") == name
