"""Stand-ins have what the credentials of a cluster have, in the same shares, and no salt tells them apart."""

from __future__ import annotations

import re
from collections import Counter

from tailrace.access.scram import ScramMechanism
from tailrace.access.stand_in import KAFKAS_SALT, Profile, Shape, StandIns, shape_of

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
KAFKAS = b"ohy3hwtepfeu1d8gtpz94n6vu"  # ScramFormatter.secureRandomBytes of Apache Kafka 4.4.0
NAMES = [f"nobody {number}" for number in range(400)]


def stand_ins(*users: Profile) -> StandIns:
    return StandIns(b"secret", users)


def test_a_salt_of_kafkas_admin_client_is_told_from_random_bytes() -> None:
    assert shape_of(4096, KAFKAS) == (4096, KAFKAS_SALT)
    assert shape_of(4096, b"s" * 16) == (4096, 16)
    assert shape_of(4096, KAFKAS.upper()) == (4096, 25)


def test_a_stand_in_for_kafkas_salt_is_text_of_the_same_lengths() -> None:
    found = stand_ins(((SHA_256, shape_of(4096, KAFKAS)),))
    salts = [found.find(name, SHA_256)[1].salt for name in NAMES]
    assert all(re.fullmatch(rb"[1-9a-z][0-9a-z]*", salt) for salt in salts) and len(set(salts)) == len(NAMES)
    lengths = Counter(map(len, salts))  # 130 bits: 26 digits, of which the first is 1, in two of five
    assert 100 < lengths[26] < 220 and lengths[25] > 150
    assert {salt[:1] for salt in salts if len(salt) == 26} == {b"1"}


def test_a_salt_is_as_long_as_that_of_the_users() -> None:
    for salt_bytes in (1, 16, 64, 200):
        found = stand_ins(((SHA_512, Shape(8192, salt_bytes)),))
        mechanism, credential = found.find("nobody", None)
        assert (mechanism, len(credential.salt), credential.iterations) == (SHA_512, salt_bytes, 8192)


def test_shapes_have_the_shares_that_users_have() -> None:
    mine, kafkas = ((SHA_256, Shape(4096, 16)),), ((SHA_256, Shape(8192, KAFKAS_SALT)),)
    found = stand_ins(mine, mine, mine, kafkas)
    counts = Counter(found.find(name, SHA_256)[1].iterations for name in NAMES)
    assert set(counts) == {4096, 8192} and 60 < counts[8192] < 140


def test_both_mechanisms_of_a_name_are_those_of_one_user() -> None:
    weak, strong = Shape(4096, 16), Shape(8192, 16)
    found = stand_ins(((SHA_256, weak), (SHA_512, weak)), ((SHA_256, strong), (SHA_512, strong)))
    pairs = {tuple(found.find(name, one)[1].iterations for one in (SHA_256, SHA_512)) for name in NAMES}
    assert pairs == {(4096, 4096), (8192, 8192)}


def test_without_users_it_is_a_credential_of_the_defaults() -> None:
    mechanism, credential = stand_ins().find("nobody", None)
    assert (mechanism, credential.iterations, len(credential.salt)) == (SHA_256, 4096, 16)
