"""Which cluster a client means, and how it connects: the one rule of the commands and of `tailrace.read`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tailrace.runtime.run_files import RunFile

if TYPE_CHECKING:
    from tailrace.net.client import ClientSettings

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
BOOTSTRAP: Final = "TAILRACE_BOOTSTRAP"
COMMAND_CONFIG: Final = "TAILRACE_COMMAND_CONFIG"  # a file of client settings; --command-config sets it, too


def running_bootstrap(data_dir: Path) -> str | None:
    """Where the cluster answers that `up` runs on a directory."""
    running = RunFile.read(data_dir / "run" / "up.json")
    return running.addresses["bootstrap"] if running and running.is_running() else None


def settings_of_file(file: str | None) -> ClientSettings:
    """The client settings of a file with Kafka's keys; none: neither TLS nor a login.

    Raises OSError, and ValueError or ConfigError for what it says.
    """
    from tailrace.net.client import PLAINTEXT

    if not file:
        return PLAINTEXT
    from tailrace.config import properties
    from tailrace.net.sasl.client_settings import client_settings
    from tailrace.runtime.clock import SystemClock

    given = {name: value for name, (value, _) in properties.parse(Path(file).read_text()).items()}
    return client_settings(given, SystemClock().wall_ms())
