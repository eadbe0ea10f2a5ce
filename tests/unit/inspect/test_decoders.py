"""Records of internal topics in words."""

from __future__ import annotations

from tailrace.inspect.decoders import metadata_record
from tailrace.records.record import Record


def test_a_credential_of_another_version_shows_no_bytes() -> None:
    row = metadata_record(Record(timestamp=0, value=b"\x01\x0b\x05secret"))
    assert (row["type"], row["bytes"]) == ("unknown", "[hidden]") and "secret" not in str(row)
