"""Features over HTTP: the levels that hold, those that are supported, and changes by the controller's decisions."""

from __future__ import annotations

import httpx

from support.rest_backend import MemoryBackend
from tailrace.kafka.features import GROUP_VERSION, SECURITY_VERSION, SUPPORTED

PLACE = "/v3/clusters/memory/features"


async def levels(http: httpx.AsyncClient) -> dict[str, int]:
    rows = (await http.get(PLACE)).json()["data"]
    return {row["feature_name"]: row["level"] for row in rows}


async def test_every_feature_is_listed_with_its_level_and_the_supported_ones(http: httpx.AsyncClient) -> None:
    assert (await levels(http)) == {**dict.fromkeys(SUPPORTED, 0), SECURITY_VERSION: 1}
    row = (await http.get(f"{PLACE}/{GROUP_VERSION}")).json()
    assert (row["level"], row["lowest_supported_level"], row["highest_supported_level"]) == (0, 0, 1)
    assert row["metadata"]["self"] == f"http://here{PLACE}/{GROUP_VERSION}"
    assert (await http.get(f"{PLACE}/share.version")).status_code == 404


async def test_a_level_is_raised_once_it_was_validated(http: httpx.AsyncClient) -> None:
    change = {"data": [{"feature_name": GROUP_VERSION, "level": 1}]}
    assert (await http.post(f"{PLACE}:update", json={**change, "validate_only": True})).status_code == 204
    assert (await levels(http))[GROUP_VERSION] == 0
    assert (await http.post(f"{PLACE}:update", json=change)).status_code == 204
    assert (await levels(http))[GROUP_VERSION] == 1


async def test_of_several_changes_all_are_made_or_none(http: httpx.AsyncClient) -> None:
    rows = [{"feature_name": GROUP_VERSION, "level": 1}, {"feature_name": SECURITY_VERSION, "level": 9}]
    refused = await http.post(f"{PLACE}:update", json={"data": rows})
    assert refused.status_code == 400 and SECURITY_VERSION in refused.json()["message"]
    assert (await levels(http))[GROUP_VERSION] == 0


async def test_a_level_is_lowered_only_by_a_word_of_its_own(http: httpx.AsyncClient, backend: MemoryBackend) -> None:
    row = {"feature_name": GROUP_VERSION, "level": 1}
    await http.post(f"{PLACE}:update", json={"data": [row]})
    row["level"] = 0
    assert (await http.post(f"{PLACE}:update", json={"data": [row]})).status_code == 400
    assert (await levels(http))[GROUP_VERSION] == 1
    lowered = await http.post(f"{PLACE}:update", json={"data": [{**row, "upgrade_type": "SAFE_DOWNGRADE"}]})
    assert (lowered.status_code, (await levels(http))[GROUP_VERSION]) == (204, 0)
    asked = len(backend.asked)
    twice = await http.post(f"{PLACE}:update", json={"data": [row, row]})
    assert (twice.status_code, len(backend.asked)) == (400, asked)
