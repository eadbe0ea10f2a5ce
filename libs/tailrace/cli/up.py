"""`tailrace up`: a whole cluster on this machine, its roles as children of this process."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tailrace.cli import options, plan
from tailrace.cli.data_dir import DataDir, UpRefused
from tailrace.cli.options import UpOptions
from tailrace.cli.plan import Instance
from tailrace.cli.ports import Reservation, check_admin_port
from tailrace.cli.preload import MODULES, preload
from tailrace.cli.roles import find_role
from tailrace.cli.screen import Screen
from tailrace.cli.supervisor import Supervisor
from tailrace.net.address import Address
from tailrace.runtime import logs
from tailrace.runtime.clock import SystemClock
from tailrace.runtime.role import Role
from tailrace.runtime.run_files import RunFile, start_ticks

if TYPE_CHECKING:
    from tailrace.cli.secure.secure_cluster import SecureCluster
    from tailrace.net.listeners.listener import ClientListener

RENEWAL_MS = 3_600_000.0  # how often the end of a certificate is looked at
FindRole = Callable[[str], Callable[[], Role]]


def admin_url(gateway: Mapping[str, str]) -> str:
    """Where a program on this machine finds the REST API, by a gateway's addresses: 0.0.0.0 and [::] are no place."""
    scheme, _, authority = (gateway.get("admin") or gateway["http"]).rpartition("://")
    return f"{scheme or 'http'}://{plan.reachable(*Address.parse(authority))}"


class PipeReporter:
    """A child's end of the pipe to its parent: one JSON line per change."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._addresses: dict[str, str] = {}

    def opened(self, addresses: dict[str, str]) -> None:
        self._addresses = addresses
        self._send(ready=False)

    def ready(self) -> None:
        self._send(ready=True)

    def ask_for(self, process: str) -> None:
        os.write(self._fd, json.dumps({"ask_for": process}).encode() + b"\n")

    def _send(self, *, ready: bool) -> None:
        os.write(self._fd, json.dumps({"ready": ready, "addresses": self._addresses}).encode() + b"\n")


class Up:
    """One run of `up`: lock, ports, imports, children."""

    def __init__(self, given: UpOptions, find_role: FindRole, modules: Sequence[str]) -> None:
        """Raises UpRefused where the directory, a port or a setting does not allow it."""
        self.clock = SystemClock()
        self.started_ms = self.clock.monotonic_ms()
        sockets = plan.socket_dir(given.data_dir, os.environ.get("XDG_RUNTIME_DIR"))
        self.data_dir = DataDir(given.data_dir, sockets)
        self.data_dir.clear()
        if given.secure:
            given = replace(given, settings={**self._settings_of_secure(given), **given.settings})
        self.ports = self._reserved(given)
        if given.admin_port:
            check_admin_port(self.ports[0].hosts, given.admin_port)
        self.given = given
        self.log_format = given.log_format or logs.default_format()
        gc.disable()
        preload(modules)
        self.instances = plan.instances(given)
        self._roles = {role: find_role(role) for role in plan.ROLES}
        self._nodes = given.counts["broker"]
        self._companion_refused = False
        self._locks = plan.Locks(clients=False, admin=False)
        self._securing: asyncio.Task[None] | None = None
        self.listeners: tuple[ClientListener, ...] = ()
        self._config_warnings = self._check_settings()
        self.secure = self._secured() if given.secure else None
        self.bootstrap = self._bootstrap(self._for_commands())

    def _settings_of_secure(self, given: UpOptions) -> Mapping[str, str]:
        """Raises UpRefused where certificates cannot be made."""
        from tailrace.cli.secure import check_library
        from tailrace.config import ConfigError

        try:
            check_library()
        except ConfigError as wrong:
            raise UpRefused(str(wrong)) from None
        from tailrace.cli.secure.secure_cluster import SECURED, settings_of

        of_clients = {"gateway.security.protocol": SECURED} if given.listen else {}
        return {**settings_of(given.data_dir), **of_clients}

    def _reserved(self, given: UpOptions) -> list[Reservation]:
        """The ports of each listener."""
        nodes = given.counts["broker"]
        if given.listen:
            return [Reservation(given.listen, given.port, nodes)]
        from tailrace.config import Config, ConfigError
        from tailrace.net.listeners.listener import listeners_of, overlap
        from tailrace.runtime.config_providers import resolve

        try:
            listeners = listeners_of(Config.load("gateway", None, os.environ, given.settings, resolve=resolve))
        except ConfigError as wrong:
            raise UpRefused(str(wrong)) from None
        if any(not one.port for one in listeners):
            raise UpRefused("listeners: `tailrace up` needs a port other than 0, as several gateways share it.")
        if why := overlap(listeners, nodes):
            raise UpRefused(why)
        taken: list[Reservation] = []
        try:
            for one in listeners:
                count = len(one.ports(nodes))
                taken.append(Reservation(one.hosts, one.port, count, of_host="listeners", of_port="listeners"))
        except UpRefused:
            for reservation in taken:
                reservation.close()
            raise
        return taken

    def _secured(self) -> SecureCluster:
        """Makes the certificates. Raises UpRefused."""
        from tailrace.cli.secure.secure_cluster import SECURED, SecureCluster
        from tailrace.config import ConfigError

        if all(one.security_protocol != SECURED for one in self.listeners):
            raise UpRefused(f"--secure needs a listener with {SECURED}: listener.security.protocol.map.")
        hosts = [host for reservation in self.ports for host in reservation.hosts]
        names = [name for one in self.listeners for name in one.advertised_names(self._nodes)]
        try:
            return SecureCluster(self.given.data_dir, hosts, names, self.clock)
        except (ConfigError, OSError) as wrong:
            raise UpRefused(str(wrong)) from None

    def _for_commands(self) -> tuple[ClientListener, Reservation]:
        """The listener that commands on this machine use: with the files of --secure if they are there, else plain."""
        wanted = "SASL_SSL" if self.given.secure else "PLAINTEXT"
        both = list(zip(self.listeners, self.ports, strict=True))
        return next((each for each in both if each[0].security_protocol == wanted), both[0])

    def _bootstrap(self, chosen: tuple[ClientListener, Reservation]) -> str:
        listener, reservation = chosen
        if listener.by_name:
            return str(Address(listener.advertised_names(1)[0], listener.advertised_port or reservation.port))
        return plan.reachable(reservation.hosts[0], reservation.port)

    def run(self) -> int:
        """Supervises until all is stopped; returns the exit status."""
        screen = Screen(as_json=self.given.json, colour=self.log_format == "colour", prefix=self.log_format != "json")
        screen.expect([instance.name for instance in self.instances])
        self._announce({})
        for warning in self._config_warnings:  # once for all roles, which are given the same settings
            screen.event(warning, event="config_warning")
        self._name_brokers_left_out(screen)
        try:
            return self._run_inline(screen) if self.given.inline else self._run_children(screen)
        finally:
            screen.close()
            self._close_ports()
            self.data_dir.close()

    def _name_brokers_left_out(self, screen: Screen) -> None:
        """Fewer brokers than before: their replicas are away, and a partition that has no others with them."""
        count = self.given.counts["broker"]
        if left_out := self.data_dir.brokers_left_out(count):
            screen.event(
                f"{self.given.data_dir} also holds partitions of broker {', '.join(map(str, left_out))}, which "
                f"--brokers {count} does not start. To take a broker away for good: start it, `tailrace broker drain "
                "ID`, stop, and start with fewer; then `tailrace broker unregister ID`.",
                event="brokers_left_out",
                brokers=left_out,
            )

    def _run_inline(self, screen: Screen) -> int:
        from tailrace.cli import inline

        gc.enable()
        logs.configure(self.log_format, self.given.log_level)
        return inline.run(
            self.instances,
            self.settings,
            self._roles.__getitem__,
            self.data_dir.run_dir,
            lambda running: self._on_ready([(file.role, file.addresses) for file in running], screen),
            until_eof=self.given.until_eof,
        )

    def _run_children(self, screen: Screen) -> int:
        supervisor = Supervisor(
            self.instances,
            self._live,
            lambda children: self._on_ready([(c.instance.role, c.addresses) for c in children], screen),
            screen,
            self.data_dir.run_dir,
            self.clock,
            restart=self.given.restart,
            leave_parent=self._leave,
            companion=lambda name: self._companion(name, screen),
            chore=None if self.secure is None else (RENEWAL_MS, lambda: self._renew(screen)),
        )
        gc.freeze()  # before the forks: a collection in a child would copy every page it walks
        return supervisor.run(until_eof=self.given.until_eof)

    def _companion(self, name: str, screen: Screen) -> Instance | None:
        """The process that a role asks for; None where it cannot be started, which is said once."""
        from tailrace.tables import extra

        if name != plan.TABLE or self._companion_refused:
            return None
        if extra.is_installed():
            return Instance(plan.TABLE, 0)
        self._companion_refused = True
        screen.event(
            f"A topic asks to be a table, for which something is missing: {extra.INSTALL}", event="tables_need_extra"
        )
        return None

    def settings(self, instance: Instance) -> Mapping[str, str]:
        first, named = self.ports[0], not self.given.listen
        hosts = () if named else tuple(first.hosts)
        return plan.settings(self.given, self.data_dir.sockets, first.port, hosts, instance)

    def _check_settings(self) -> tuple[str, ...]:
        """What is to be said of them; raises UpRefused where every role would refuse them."""
        from tailrace.config import Config, ConfigError
        from tailrace.net.authentication.secret_file import make_secret, read_secret
        from tailrace.net.listeners.listener import admin_listener, listeners_of, mechanisms_of
        from tailrace.net.members.internal import internal_address
        from tailrace.runtime.config_providers import resolve
        from tailrace.runtime.insecure_listeners import check_listeners

        try:
            config = Config.load("broker", None, os.environ, self.settings(self.instances[0]), resolve=resolve)
            check_listeners(config, plan.ROLES)
            self.listeners, admin = listeners_of(config), admin_listener(config)
            self._locks = plan.Locks(all(one.has_login for one in self.listeners), admin.has_login)
            if not config.internal_secret_file:
                make_secret(self.given.data_dir)
            secret = read_secret(config, self.given.data_dir)
            internal_address(config, self.data_dir.sockets, "any", secret)
            if any(one.security_protocol != "PLAINTEXT" for one in self.listeners):
                from tailrace.net.sasl.settings import sasl_settings
                from tailrace.net.tls.handshakes import check_tls

                for one in () if self.given.secure else self.listeners:  # those certificates are yet to be made
                    check_tls(one.tls, one.principal_rules, self.clock.wall_ms())
                sasl_settings(config, mechanisms_of(self.listeners))
        except (ConfigError, OSError) as error:
            raise UpRefused(str(error)) from None
        return config.warnings

    def _live(self, instance: Instance, report_fd: int) -> int:
        """A child's life."""
        from tailrace.config import Config
        from tailrace.runtime.config_providers import resolve
        from tailrace.runtime.process import live
        from tailrace.runtime.role_instance import RoleInstance

        gc.enable()
        logs.configure(self.log_format, self.given.log_level)
        if instance.role == plan.TABLE:
            from tailrace.cli.table.child import live_worker
            from tailrace.frames.where import COMMAND_CONFIG

            if self.secure is not None:
                os.environ.setdefault(COMMAND_CONFIG, str(self.secure.command_config))
            target = self.given.tables or str(self.given.data_dir)
            log = logs.logger(plan.TABLE, instance.id, named=self.log_format == "json")
            return live_worker(self.bootstrap, target, log, PipeReporter(report_fd))
        config = Config.load(instance.role, None, os.environ, self.settings(instance), resolve=resolve)
        role = self._roles[instance.role]()
        named = self.log_format == "json"
        live(RoleInstance(role, instance.id, config, PipeReporter(report_fd), named_log=named))
        return 0

    def _leave(self) -> None:
        """In a child: the lock and the ports are the parent's."""
        os.close(self.data_dir.lock_fd)
        self._close_ports()

    def _close_ports(self) -> None:
        for reservation in self.ports:
            reservation.close()

    def _announce(self, admin: Mapping[str, str]) -> None:
        pid = os.getpid()
        addresses = {"bootstrap": self.bootstrap, **admin}
        running = RunFile("up", -1, pid, start_ticks(pid), self.clock.wall_ms(), bool(admin), addresses)
        self.data_dir.announce(running)

    def _on_ready(self, running: Sequence[tuple[str, Mapping[str, str]]], screen: Screen) -> None:
        if self.secure is None:
            self._say_ready(running, screen, [])
            return
        securing = self._make_secure(self.secure, list(running), screen)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # the roles are other processes
            asyncio.run(securing)
        else:
            self._securing = loop.create_task(securing)

    async def _make_secure(
        self, secure: SecureCluster, running: Sequence[tuple[str, Mapping[str, str]]], screen: Screen
    ) -> None:
        """What can only be made once the roles answer: the first user, and files with the addresses."""
        from tailrace.cli.secure.first_user import FirstUserRefused

        given, admin = self.given, self._admin_url(running)
        bootstrap, (listener, reservation) = self.bootstrap, self._for_commands()
        if listener.advertised_host and not listener.by_name:
            bootstrap = str(Address(listener.advertised_host, listener.advertised_port or reservation.port))
        controllers = plan.controllers(given, self.data_dir.sockets)
        try:
            lines = await secure.open(controllers, bootstrap, admin)
        except (FirstUserRefused, OSError) as wrong:
            screen.event(f"Nobody can log in yet: {wrong}", event="not_secured", why=str(wrong))
            return
        self._say_ready(running, screen, lines)

    def _admin_url(self, running: Sequence[tuple[str, Mapping[str, str]]]) -> str:
        return admin_url(next(addresses for role, addresses in running if role == "gateway"))

    def _say_ready(self, running: Sequence[tuple[str, Mapping[str, str]]], screen: Screen, more: Sequence[str]) -> None:
        admin = self._admin_url(running)
        self._announce({"admin": admin})
        seconds = (self.clock.monotonic_ms() - self.started_ms) / 1000
        bound = [
            (one, [Address(host, port) for host in reservation.hosts for port in one.ports(self._nodes)])
            for one, reservation in zip(self.listeners, self.ports, strict=True)
        ]
        clients = [at for one, addresses in bound if not one.has_login for at in addresses]
        admin_port = Address.parse(admin.partition("://")[2]).port
        admins = [Address(host, admin_port) for host in self.ports[0].hosts]
        unlocked = list(plan.open_without_login(clients, admins, running, self._locks))
        lines = [
            f"Tailrace is ready after {seconds:.2f} s.",
            *self._lines_of(bound),
            f"  Admin      {admin}{f'  ({there})' if (there := plan.bound(admins)) else ''}",
            f"  Data       {self.given.data_dir}",
            *more,
        ]
        if unlocked:
            lines.append(f"  Open       without a login, to every host that reaches it: {', '.join(unlocked)}")
        screen.event(
            "\n".join(lines),
            event="all_ready",
            bootstrap=self.bootstrap,
            admin=admin,
            data_dir=str(self.given.data_dir),
            seconds=round(seconds, 3),
            open_without_login=unlocked,
        )

    def _lines_of(self, bound: Sequence[tuple[ClientListener, Sequence[Address]]]) -> list[str]:
        """Where clients connect."""
        if len(bound) == 1:
            (_, addresses), *_ = bound
            said = "; ".join(filter(None, ("Kafka clients", plan.bound(addresses))))
            return [f"  Bootstrap  {self.bootstrap}  ({said})"]
        lines = [f"  Bootstrap  {self.bootstrap}  (Kafka clients on this machine)"]
        for one, addresses in bound:
            names = f"; one port for all nodes, by {one.advertised_host}" if one.by_name else ""
            listed = ", ".join(map(str, addresses))
            lines.append(f"  Listener   {one.name} on {listed}  ({one.security_protocol}{names})")
        return lines

    def _renew(self, screen: Screen) -> None:
        assert self.secure is not None
        if said := self.secure.renew():
            screen.event(said, event="certificate")


def main(arguments: Sequence[str], find_role: FindRole = find_role, modules: Sequence[str] = MODULES) -> int:
    """Returns the exit status; what does not allow a start is said in one sentence."""
    given = options.parse(arguments, os.environ)
    try:
        up = Up(given, find_role, modules)
    except UpRefused as refused:
        sys.stderr.write(f"{refused}\n")
        return 1
    return up.run()
