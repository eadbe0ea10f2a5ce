"""The controller's one place that builds objects."""

import fcntl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from tailrace.config import Config, ConfigError
from tailrace.net.authentication.metrics import with_logins
from tailrace.net.authorization.opening import open_authorizer
from tailrace.net.background import in_background
from tailrace.net.context import Context
from tailrace.net.dispatch import Handler, Service, topic_names
from tailrace.net.limits.request_memory import RequestMemory
from tailrace.net.limits.role_memory import RoleMemory
from tailrace.net.limits.role_memory_metrics import RoleMemoryMetrics
from tailrace.net.members.internal import advertised_address, internal_address
from tailrace.net.metadata.follower import controller_addresses
from tailrace.net.server import serve
from tailrace.private_files import private_data_dir, private_opener
from tailrace.runtime.role import Environment, Role
from tailrace.wire.apis import INTERNAL_APIS
from tailrace_controller.commands import accept_restored, first_image, write_image
from tailrace_controller.controller import Controller
from tailrace_controller.election.candidacy import Candidacy
from tailrace_controller.election.quorum import Quorum
from tailrace_controller.election.seen_file import SeenFile
from tailrace_controller.handlers import HANDLERS
from tailrace_controller.metadata_log.database import Database
from tailrace_controller.metadata_log.lease_row import Candidate
from tailrace_controller.metadata_log.port import MetadataStore
from tailrace_controller.metadata_log.stored import StoreError
from tailrace_controller.metrics import ControllerMetrics
from tailrace_controller.mutations import ClientMutations
from tailrace_controller.periodic import PeriodicTasks
from tailrace_controller.role import CommittedImage, ControllerRole
from tailrace_controller.sessions.watch import SessionWatch

LEASE_MS_MIN = 100.0


@asynccontextmanager
async def open_controller(config: Config, environment: Environment) -> AsyncIterator[ControllerRole]:
    """Holds the node's lock, serves the internal listener and follows the log; ready once it is replayed."""
    url = accept_restored.database_url(config, environment.data_dir)
    with only_controller(environment.data_dir, config.node_id, url):
        address = internal_address(config, environment.run_dir, f"controller-{config.node_id}", environment.secret)
        lease_ms = max(float(config.controller_quorum_election_timeout_ms), LEASE_MS_MIN)
        may_upgrade = config.metadata_schema_upgrade
        shared = not url.startswith("sqlite")
        open_it = partial(open_store, url, environment, lease_ms, may_upgrade=may_upgrade)
        database = Database(open_it, environment.clock, lease_ms, shared=shared)
        new_token = f"{environment.random.getrandbits(64):016x}"
        seen_file = SeenFile(environment.data_dir, config.node_id, new_token)
        candidate = Candidate(config.node_id, seen_file.token, str(address), exclusive=not database.shared)
        tools = (environment.clock, environment.random, environment.log)
        candidacy = Candidacy(candidate, database, *tools, lease_ms)
        controller = Controller(config, candidacy, database, *tools, seen_file)
        watch = SessionWatch(controller, config.broker_session_timeout_ms, environment.boot_id)
        controllers = controller_addresses(config, environment.run_dir)
        quorum = Quorum(environment.clock, address, controllers, secret=environment.secret)
        authorizer = environment.authorizer or open_authorizer(config, CommittedImage(controller), environment)
        mutations = ClientMutations(controller)
        role = ControllerRole(controller, watch, PeriodicTasks(controller), quorum, mutations, authorizer is not None)
        ControllerMetrics(environment.registry, role)
        controller.activated = role.on_activated
        controller.resigned = watch.on_resigned
        memory = RoleMemory(RequestMemory(config.queued_max_request_bytes))
        RoleMemoryMetrics(environment.registry, memory)
        service = Service(
            role,
            {key: stamped(handler) for key, handler in HANDLERS.items()},
            INTERNAL_APIS,
            environment.log,
            internal=True,
            on_close=watch.on_connection_lost,
            memory=memory,
            authorizer=authorizer,
            topic_name=topic_names(lambda: controller.image),
        )
        service = with_logins(service, environment.secret, environment.clock, environment.registry)
        server = await serve([address], service)
        role.addresses["internal"] = str(server.addresses[0])
        quorum.own = advertised_address(config, server.addresses[0])
        candidacy.candidate = replace(candidate, address=str(quorum.own))
        try:
            async with in_background(controller.serve()):
                yield role
        except StoreError as refusal:
            raise ConfigError(f"The controller cannot start: {refusal}.") from refusal
        finally:
            role.close()
            await controller.leave()
            await server.close()
            await database.close()


def open_store(url: str, environment: Environment, lease_ms: float, *, may_upgrade: bool) -> MetadataStore:
    """Connects to nothing yet."""
    from tailrace_controller.store import Store  # 200 ms: in a thread they pass while the event loop binds sockets

    def blocked(sentence: str) -> None:
        environment.log.warning("the metadata database is locked", why=sentence)

    return Store(url, environment.clock.monotonic_ms, blocked, lease_ms, may_upgrade=may_upgrade)


def stamped(handler: Handler) -> Handler:
    """Answers that have a field for it carry the controller epoch: receivers refuse one lower than they have seen."""

    async def handle(request: object, context: Context, role: ControllerRole) -> object:
        answer = await handler(request, context, role)
        if "controller_epoch" in answer.fields:
            answer.controller_epoch = role.controller.epoch
        return answer

    return handle


@contextmanager
def only_controller(data_dir: Path, node_id: int, url: str) -> Iterator[None]:
    """Locks the data directory: with SQLite one controller only, with a server one of each id."""
    private_data_dir(data_dir)
    name = "controller.lock" if url.startswith("sqlite") else f"controller-{node_id}.lock"
    with open(data_dir / name, "a", opener=private_opener) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as taken:
            if not url.startswith("sqlite"):
                raise ConfigError(f"Another controller {node_id} already works on {data_dir}.") from taken
            raise ConfigError(
                f"Another controller already works on {data_dir}; SQLite metadata allows one controller only "
                "(set metadata.url to a PostgreSQL database for more)."
            ) from taken
        yield


role = Role(
    "controller",
    open_controller,
    {"accept-restored": accept_restored.main, "begin-with": first_image.main, "write-image": write_image.main},
)
