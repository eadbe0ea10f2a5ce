"""The FastAPI application: routers, refusals, limits, the console and the page of the API."""

from __future__ import annotations

from importlib.resources import files
from random import Random

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware

from tailrace.clock import Clock
from tailrace_gateway.rest import errors, openapi, paths
from tailrace_gateway.rest.access.login import LoginRequired
from tailrace_gateway.rest.access.rest_access import OPEN, RestAccess
from tailrace_gateway.rest.acls import routes as acls
from tailrace_gateway.rest.backend import AdminBackend
from tailrace_gateway.rest.brokers import routes as brokers
from tailrace_gateway.rest.clusters import routes as clusters
from tailrace_gateway.rest.compaction import routes as compaction
from tailrace_gateway.rest.configs import routes as configs
from tailrace_gateway.rest.console import assets, events
from tailrace_gateway.rest.console.hub import Hubs
from tailrace_gateway.rest.documentation import pages
from tailrace_gateway.rest.elections import routes as elections
from tailrace_gateway.rest.features import routes as features
from tailrace_gateway.rest.groups import routes as groups
from tailrace_gateway.rest.hosts import HostCheck, HostRules
from tailrace_gateway.rest.limits import RestLimits
from tailrace_gateway.rest.log_dirs import routes as log_dirs
from tailrace_gateway.rest.producers import routes as producers
from tailrace_gateway.rest.prometheus import routes as prometheus
from tailrace_gateway.rest.quotas import routes as quotas
from tailrace_gateway.rest.reading import offsets
from tailrace_gateway.rest.reading import routes as reading
from tailrace_gateway.rest.reading.places import ReadingPlaces
from tailrace_gateway.rest.records import batch
from tailrace_gateway.rest.records import routes as records
from tailrace_gateway.rest.replication import routes as replication
from tailrace_gateway.rest.scope import Services
from tailrace_gateway.rest.topics import routes as topics
from tailrace_gateway.rest.transactions import routes as transactions
from tailrace_gateway.rest.users import routes as users

_SMALL_BYTES = 1 << 10  # an answer that is sent as it is
_LEVEL = 1  # of gzip: JSON shrinks to a tenth by the cheapest
_CORS_HEADERS = ("Authorization", "Last-Event-ID")  # no cookies: a page of another origin logs in itself
_ABOUT = "Administration of a Tailrace cluster over HTTP, in the shape of Confluent's REST API v3."


def create_app(
    backend: AdminBackend, clock: Clock, random: Random, hosts: HostRules, access: RestAccess = OPEN
) -> FastAPI:
    """Builds the application; of its own it keeps what open pages of the console watch."""
    app = FastAPI(title="Tailrace REST", version="3", description=_ABOUT, docs_url=None, redoc_url=None)
    app.state.services = Services(backend, clock, random, access.authorizer)
    app.state.reading_places = ReadingPlaces()
    app.state.console = Hubs(clock, random)
    for module in (
        clusters,
        replication,
        elections,
        brokers,
        log_dirs,
        compaction,
        producers,
        topics,
        configs,
        features,
        groups,
        transactions,
        quotas,
        records,
        batch,
        acls,
        users,
        reading,
        offsets,
        prometheus,
    ):  # "-" before any topic's name
        # Not include_router: FastAPI may keep what is included as one route, and paths.py and errors.py see each.
        app.router.routes.extend(module.router.routes)
    app.router.routes.extend(events.router.routes)
    assets.install(app)
    pages.install(app)
    style = files("tailrace_gateway.rest").joinpath("static", "page.css").read_bytes()
    assets.add(app, "/static/page.css", assets.asset_of("page.css", style))  # of the login page
    errors.install(app)
    app.add_middleware(GZipMiddleware, minimum_size=_SMALL_BYTES, compresslevel=_LEVEL)
    paths.install(app)
    openapi.install(app)
    if access.login is not None:
        app.add_middleware(LoginRequired, login=access.login, clock=clock)
    app.add_middleware(RestLimits)
    if hosts.cross_origin.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=hosts.cross_origin.origins,
            allow_methods=hosts.cross_origin.methods,
            allow_headers=_CORS_HEADERS,
            expose_headers=("Location",),
        )
    app.add_middleware(HostCheck, rules=hosts)  # the last that is added sees a request first
    return app
