"""The controller's one place that builds objects."""

import contextlib
import fcntl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from tailrace.config import Config, ConfigError
from tailrace.net.background import beside
from tailrace.net.dispatch import Service
from tailrace.net.internal import internal_address
from tailrace.net.server import serve
from tailrace.runtime.role import Environment, Role
from tailrace.wire.apis import INTERNAL_APIS
from tailrace_controller.controller import Controller
from tailrace_controller.database import Database
from tailrace_controller.handlers import HANDLERS
from tailrace_controller.metrics import ControllerMetrics
from tailrace_controller.role import ControllerRole
from tailrace_controller.stored import StoreError
from tailrace_controller.watch import Watch


@asynccontextmanager
async def open_controller(config: Config, environment: Environment) -> AsyncIterator[ControllerRole]:
    """Holds the node's lock, serves the internal listener and loads the log; ready once it is replayed."""
    url = config.metadata_url or f"sqlite:///{environment.data_dir / 'metadata.db'}"
    with only_controller(environment.data_dir, config.node_id, url):
        database = Database(url, environment.clock, environment.log)
        controller = Controller(
            config.node_id, config, database, environment.clock, environment.random, environment.log
        )
        ControllerMetrics(environment.registry, controller)
        watch = Watch(controller, config.broker_session_timeout_ms, environment.boot_id)
        controller.activated = watch.on_activated
        role = ControllerRole(controller, watch)
        service = Service(
            role, HANDLERS, INTERNAL_APIS, environment.log, internal=True, on_close=watch.on_connection_lost
        )
        server = await serve([internal_address(config, environment.run_dir, f"controller-{config.node_id}")], service)
        role.addresses["internal"] = str(server.addresses[0])
        try:
            async with beside(controller.serve()):
                yield role
        except StoreError as refusal:
            raise ConfigError(f"The controller cannot start: {refusal}.") from refusal
        finally:
            role.close()
            await server.close()
            await database.close()


@contextmanager
def only_controller(data_dir: Path, node_id: int, url: str) -> Iterator[None]:
    """Locks the data directory: with SQLite one controller only, with a server one of each id."""
    data_dir.mkdir(parents=True, exist_ok=True)
    name = "controller.lock" if url.startswith("sqlite") else f"controller-{node_id}.lock"
    with contextlib.closing((data_dir / name).open("a")) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as taken:
            raise ConfigError(
                f"Another controller already works on {data_dir}; SQLite metadata allows one controller only "
                "(set metadata.url to a PostgreSQL database for more)."
            ) from taken
        yield


role = Role("controller", open_controller)
