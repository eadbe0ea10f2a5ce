"""The schema of every message, in every version that is served, is the one in Apache Kafka's own jar."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from typing import Any, NamedTuple

import pytest

from support import kafka_peer
from support.plugin import leave_out
from tailrace.wire.apis import INTERNAL_APIS, Api

KAFKAS = [api for api in INTERNAL_APIS.values() if api.key < 10_000]
OURS, LIBRARY = files("tailrace.wire.descriptors"), files("kafka.protocol.schemas.resources")
OWN_TAGS_FROM = 10_000  # tagged fields between services of Tailrace
PRIMITIVES = frozenset(
    {"string", "uuid", "bool", "bytes", "records", "int8", "int16", "int32", "int64", "uint16", "uint32", "float64"}
)


class Field(NamedTuple):
    """What a field is on the wire."""

    path: str
    type: str
    nullable: bool
    tag: int | None
    default: str


@pytest.fixture(scope="module")
def jar() -> Iterator[zipfile.ZipFile]:
    if absent := kafka_peer.missing():
        leave_out(absent)
    (clients,) = kafka_peer.libs().glob("kafka-clients-*.jar")
    with zipfile.ZipFile(clients) as opened:
        yield opened


def schema(text: str) -> Any:
    return json.loads("\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//")))


def is_in(versions: str | None, version: int) -> bool:
    """Whether "3+", "0-5", "2" or "none" names the version."""
    if versions in (None, "none"):
        return False
    low, _, high = versions.removesuffix("+").partition("-")
    return int(low) <= version and (versions.endswith("+") or version <= int(high or low))


def walk(rows: Iterable[Any], structs: Mapping[str, Any], version: int, above: str = "") -> Iterator[Field]:
    for row in rows:
        if not is_in(row["versions"], version):
            continue
        path = above + row["name"][0].lower() + row["name"][1:]
        name = re.sub(r"\w+$", lambda found: found[0] if found[0] in PRIMITIVES else "struct", row["type"])
        tag = row["tag"] if is_in(row.get("taggedVersions"), version) else None
        if tag is None or tag < OWN_TAGS_FROM:
            yield Field(path, name, is_in(row.get("nullableVersions"), version), tag, str(row.get("default", "")))
        inner = row.get("fields") or structs.get(row["type"].removeprefix("[]"), ())
        yield from walk(inner, structs, version, f"{path}.")


def fields(found: Any, version: int) -> list[Field]:
    structs = {struct["name"]: struct["fields"] for struct in found.get("commonStructs", ())}
    return list(walk(found["fields"], structs, version))


@pytest.mark.parametrize("api", KAFKAS, ids=lambda api: api.name)
@pytest.mark.parametrize("kind", ["Request", "Response"])
def test_the_fields_of_every_version_are_kafkas(jar: zipfile.ZipFile, api: Api, kind: str) -> None:
    name = f"{api.name}{kind}.json"
    kafkas = schema(jar.read(f"common/message/{name}").decode())
    ours = schema((OURS if (OURS / name).is_file() else LIBRARY).joinpath(name).read_text())
    for version in range(api.min_version, api.max_version + 1):
        assert fields(ours, version) == fields(kafkas, version)
        assert is_in(kafkas["flexibleVersions"], version) == is_in(ours["flexibleVersions"], version)
        assert is_in(kafkas["flexibleVersions"], version) == api.flexible(version)
        assert is_in(kafkas["validVersions"], version)
