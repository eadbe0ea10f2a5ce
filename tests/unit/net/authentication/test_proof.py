"""The proof as bytes: what passes, and the first byte at which everything else is refused."""

from __future__ import annotations

import itertools
import random

import pytest

from tailrace.net.authentication.proof import (
    ANSWER_BYTES,
    HELLO_BYTES,
    MAGIC,
    PROOF_BYTES,
    ClientProof,
    NotProven,
    Secret,
    ServerProof,
)

SECRET, OTHER = Secret(b"a" * 32), Secret(b"b" * 32)
CLIENT_NONCE, SERVER_NONCE = bytes(range(32)), bytes(range(100, 132))


def sides(client: Secret = SECRET, server: Secret = SECRET) -> tuple[ClientProof, ServerProof]:
    return ClientProof(client, CLIENT_NONCE), ServerProof(server, SERVER_NONCE)


def pieces(data: bytes, seed: int) -> list[bytes]:
    chance = random.Random(seed)
    cuts = sorted({0, len(data), *(chance.randrange(len(data)) for _ in range(chance.randrange(9)))})
    return [data[begin:end] for begin, end in itertools.pairwise(cuts)]


@pytest.mark.parametrize("seed", range(50))
def test_both_sides_are_proven_however_the_bytes_are_cut_and_what_follows_is_left(seed: int) -> None:
    client, server = sides()
    answer = b"".join(server.receive(piece) for piece in pieces(client.hello, seed))
    assert len(answer) == ANSWER_BYTES
    assert not server.proven
    proof = b"".join(client.receive(piece) for piece in pieces(answer, seed))
    for piece in pieces(proof + b"frames", seed):
        assert server.receive(piece) == b""
    assert server.proven
    assert server.rest == b"frames"


def test_one_bytes_pieces_do() -> None:
    client, server = sides()
    answer = b"".join(server.receive(client.hello[at : at + 1]) for at in range(HELLO_BYTES))
    proof = b"".join(client.receive(answer[at : at + 1]) for at in range(ANSWER_BYTES))
    for at in range(PROOF_BYTES):
        assert not server.proven
        server.receive(proof[at : at + 1])
    assert server.proven
    assert server.rest == b""


def test_a_client_says_nothing_of_its_own_to_a_server_of_another_secret() -> None:
    client, server = sides(server=OTHER)
    with pytest.raises(NotProven, match=r"internal\.secret\.file"):
        client.receive(server.receive(client.hello))


def test_a_client_of_another_secret_is_refused() -> None:
    client, server = sides()
    answer = server.receive(client.hello)
    with pytest.raises(NotProven):
        server.receive(OTHER.proof(b"client", CLIENT_NONCE, answer[:32]))
    assert not server.proven


def test_a_proof_said_again_on_another_connection_is_refused() -> None:
    client, server = sides()
    recorded = client.hello, client.receive(server.receive(client.hello))
    again = ServerProof(SECRET, bytes(32))
    again.receive(recorded[0])
    with pytest.raises(NotProven):
        again.receive(recorded[1])


def test_a_servers_own_proof_is_not_a_clients() -> None:
    _, server = sides()
    answer = server.receive(MAGIC + CLIENT_NONCE)
    with pytest.raises(NotProven):
        server.receive(answer[32:])


def test_a_clients_hello_is_not_a_servers_answer() -> None:
    client, _ = sides()
    with pytest.raises(NotProven):
        client.receive((client.hello + bytes(ANSWER_BYTES))[:ANSWER_BYTES])


@pytest.mark.parametrize("garbage", [b"\x00\x00\x00\x10frame", b"GET / HTTP/1.1\r\n", b"\x16\x03\x01", b"TRPROOF\x02"])
def test_what_is_no_proof_is_refused_at_its_first_wrong_byte(garbage: bytes) -> None:
    _, server = sides()
    wrong = next(at for at in range(len(garbage)) if garbage[at] != MAGIC[at])
    server.receive(garbage[:wrong])
    with pytest.raises(NotProven):
        server.receive(garbage[wrong : wrong + 1])


@pytest.mark.parametrize("at", range(0, PROOF_BYTES, 5))
def test_one_wrong_bit_is_enough(at: int) -> None:
    client, server = sides()
    proof = bytearray(client.receive(server.receive(client.hello)))
    proof[at] ^= 1
    with pytest.raises(NotProven):
        server.receive(bytes(proof))


def test_a_role_that_awaits_no_proof_takes_a_hello_for_no_frame() -> None:
    assert int.from_bytes(MAGIC[:4], "big") > 1 << 30


def test_a_secret_is_shown_nowhere() -> None:
    assert "aaaa" not in f"{SECRET!r} {SECRET}"
