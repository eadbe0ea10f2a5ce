"""The application as a whole: answers are compressed for clients that take it."""

from __future__ import annotations

import gzip

import httpx
import pytest

from support.rest_backend import MemoryBackend

ROOT = "/v3/clusters/memory"
GZIP = {"accept-encoding": "gzip"}


@pytest.fixture(autouse=True)
def topics(backend: MemoryBackend) -> None:
    for number in range(50):
        backend.set_topic(f"topic-{number}", 1)


@pytest.mark.parametrize("place", ["topics", "topics/-/configs", "brokers/0/partition-replicas"])
async def test_a_large_answer_is_compressed_for_a_client_that_takes_it(http: httpx.AsyncClient, place: str) -> None:
    plain = await http.get(f"{ROOT}/{place}", headers={"accept-encoding": "identity"})
    async with http.stream("GET", f"{ROOT}/{place}", headers=GZIP) as answer:
        content = b"".join([part async for part in answer.aiter_raw()])
    assert "content-encoding" not in plain.headers
    assert answer.headers["content-encoding"] == "gzip" and "Accept-Encoding" in answer.headers["vary"]
    assert gzip.decompress(content) == plain.content
    assert 5 * len(content) < len(plain.content)


async def test_a_small_answer_is_sent_as_it_is(http: httpx.AsyncClient) -> None:
    answer = await http.get(f"{ROOT}/topics/topic-1", headers=GZIP)
    assert "content-encoding" not in answer.headers and answer.json()["topic_name"] == "topic-1"


async def test_the_head_of_a_compressed_answer_is_that_of_the_answer(http: httpx.AsyncClient) -> None:
    answer, head = await http.get(f"{ROOT}/topics", headers=GZIP), await http.head(f"{ROOT}/topics", headers=GZIP)
    assert (head.headers, head.content) == (answer.headers, b"")
