"""What an unclean stop left to check, said in the log: how much there is, and each log that was worth a line."""

from __future__ import annotations

from typing import Any

from tailrace.log.log import Log
from tailrace.log.logs import LogDir

_WORTH_A_LINE = 16 << 20


def tell_recovery(dirs: list[LogDir], log: Any) -> None:
    """After an unclean stop: how many logs must be checked, and each that was, as that is done at its first use."""

    def tell(log_dir: LogDir) -> None:
        def on_recovered(key: tuple[str, int], opened: Log) -> None:
            # Thousands of lines about next to nothing would cost more than the checks.
            if not opened.cut_bytes and opened.unflushed_bytes < _WORTH_A_LINE and log_dir.remaining_logs_to_recover:
                return
            log.info(
                "recovered",
                topic=key[0],
                partition=key[1],
                checked_bytes=opened.unflushed_bytes,
                cut_bytes=opened.cut_bytes,
                remaining_logs_to_recover=log_dir.remaining_logs_to_recover,
            )

        log_dir.on_recovered = on_recovered
        if log_dir.remaining_logs_to_recover:
            log.warning(
                "the last stop was not clean: logs are checked when first used",
                log_dir=log_dir.path,
                remaining_logs_to_recover=log_dir.remaining_logs_to_recover,
            )

    for log_dir in dirs:
        tell(log_dir)
