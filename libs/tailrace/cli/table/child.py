"""The worker of tables as a child of `up`."""

from __future__ import annotations

import os

from structlog.typing import FilteringBoundLogger
from typer import BadParameter

from tailrace.cli.daily.connection import command_settings
from tailrace.net.address import Address
from tailrace.runtime.process import run_loop
from tailrace.runtime.role_instance import Reporter
from tailrace.tables.app import TableOptions, serve_tables
from tailrace.tables.location import REGISTRY_USER_VARIABLE, REGISTRY_VARIABLE, parse_registry


def live_worker(bootstrap: str, target: str, log: FilteringBoundLogger, reporter: Reporter) -> int:
    """Its whole life; the status to exit with."""
    try:
        registry = parse_registry(os.environ.get(REGISTRY_VARIABLE, ""), os.environ.get(REGISTRY_USER_VARIABLE, ""))
        options = TableOptions([Address.parse(bootstrap)], target, settings=command_settings(), registry=registry)
    except (BadParameter, ValueError) as wrong:
        log.error("no table is written", why=wrong.message if isinstance(wrong, BadParameter) else str(wrong))
        return 1
    run_loop(lambda stop: serve_tables(options, log, reporter, stop))
    return 0
