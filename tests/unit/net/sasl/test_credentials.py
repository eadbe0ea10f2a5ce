"""What a login finds of a user: nothing of it says whether there is one."""

from __future__ import annotations

from collections import Counter

from tailrace.access.scram import DEFAULT_ITERATIONS, ScramMechanism
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.records import UserScramCredentialRecord
from tailrace.net.sasl.credentials import UserCredentials

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def image(**iterations: int) -> MetadataImage:
    """Users by SCRAM-SHA-256, with their iterations."""
    records = {
        name: {int(SHA_256): UserScramCredentialRecord(name, SHA_256, b"salt", b"stored", b"server", count)}
        for name, count in iterations.items()
    }
    return MetadataImage(scram=records)


def test_a_user_that_does_not_exist_has_the_iterations_of_the_users_there_are() -> None:
    present = [image()]
    users = UserCredentials(lambda: present[-1], lambda: b"secret")
    assert users.find("nobody", SHA_256).credential.iterations == DEFAULT_ITERATIONS
    present.append(image(a=8192, b=8192, c=5000))
    drawn = [users.find(f"nobody {number}", SHA_256) for number in range(300)]
    counts = Counter(found.credential.iterations for found in drawn)
    assert set(counts) == {5000, 8192} and 60 < counts[5000] < 140 and not any(found.known for found in drawn)
    assert users.find("nobody", SHA_512).credential.iterations == DEFAULT_ITERATIONS
    assert users.find("c", SHA_256) == (SHA_256, users.find("c", None).credential, True)


def test_every_process_of_a_cluster_gives_the_same_salt_for_it() -> None:
    def salt(name: str, secret: bytes) -> bytes:
        return UserCredentials(image, lambda: secret).find(name, SHA_256).credential.salt

    assert salt("nobody", b"secret") == salt("nobody", b"secret")
    assert len({salt("nobody", b"secret"), salt("noone", b"secret"), salt("nobody", b"other")}) == 3


def test_a_secret_that_is_changed_counts_at_once_as_in_a_process_that_starts_with_it() -> None:
    secrets = [b"secret"]
    running = UserCredentials(image, lambda: secrets[-1])
    before = running.find("nobody", SHA_256)
    secrets.append(b"other")
    assert running.find("nobody", SHA_256) == UserCredentials(image, lambda: b"other").find("nobody", SHA_256) != before


def test_plain_checks_a_user_that_does_not_exist_by_a_hash_and_iterations_of_the_users() -> None:
    strong = UserScramCredentialRecord("a", SHA_512, b"salt", b"stored", b"server", 8192)
    both = {**image(b=4096).scram, "a": {int(SHA_512): strong}}
    users = UserCredentials(lambda: MetadataImage(scram=both), lambda: b"secret")
    drawn = [users.find(f"nobody {number}", None) for number in range(300)]
    counts = Counter((found.mechanism, found.credential.iterations) for found in drawn)
    assert set(counts) == {(SHA_256, 4096), (SHA_512, 8192)} and min(counts.values()) > 110
