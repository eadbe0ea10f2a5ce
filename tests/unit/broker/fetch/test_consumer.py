"""What a consumer is answered of one partition."""

from __future__ import annotations

from pathlib import Path

from support.broker import batch, running


async def test_what_lies_in_the_log_since_before_a_restart_is_not_waited_with(tmp_path: Path) -> None:
    """Of it a read looks at some hundred batches: fewer bytes than asked for, but no append would make them more."""
    async with running(tmp_path) as broker:
        await broker.produce(0, *[batch(b"x")] * 300)
    async with running(tmp_path) as broker:
        row = await broker.fetch(0, 0, min_bytes=20_000, max_bytes=50 << 20, max_wait_ms=60_000)
        assert row.error_code == 0 and 0 < len(row.records) < 20_000 < 300 * len(batch(b"x"))
