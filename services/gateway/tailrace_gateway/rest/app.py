"""The FastAPI application: routers, refusals, limits, the console and the page of the API."""

from __future__ import annotations

from importlib.resources import files
from random import Random

from fastapi import FastAPI, Response
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware

from tailrace.clock import Clock
from tailrace_gateway.rest import errors, paths
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
from tailrace_gateway.rest.elections import routes as elections
from tailrace_gateway.rest.features import routes as features
from tailrace_gateway.rest.groups import routes as groups
from tailrace_gateway.rest.hosts import HostCheck, HostRules
from tailrace_gateway.rest.limits import RestLimits
from tailrace_gateway.rest.log_dirs import routes as log_dirs
from tailrace_gateway.rest.producers import routes as producers
from tailrace_gateway.rest.quotas import routes as quotas
from tailrace_gateway.rest.reading import offsets
from tailrace_gateway.rest.reading import routes as reading
from tailrace_gateway.rest.reading.places import ReadingPlaces
from tailrace_gateway.rest.records import batch
from tailrace_gateway.rest.records import routes as records
from tailrace_gateway.rest.records.models import NewRecord
from tailrace_gateway.rest.replication import routes as replication
from tailrace_gateway.rest.scope import Services
from tailrace_gateway.rest.topics import routes as topics
from tailrace_gateway.rest.transactions import routes as transactions
from tailrace_gateway.rest.users import routes as users

# Everything the pages need is here: nothing is loaded from elsewhere, and nobody may frame them.
_SECURITY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
_PAGES = {
    "/docs": ("docs.html", "text/html"),
    "/static/docs.js": ("docs.js", "text/javascript"),
    "/static/page.css": ("page.css", "text/css"),
}
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
    ):  # "-" before any topic's name
        # Not include_router: FastAPI may keep what is included as one route, and paths.py and errors.py see each.
        app.router.routes.extend(module.router.routes)
    app.router.routes.extend(events.router.routes)
    for path in _PAGES:
        _add_page(app, path)
    assets.install(app)
    errors.install(app)
    app.add_middleware(GZipMiddleware, minimum_size=_SMALL_BYTES, compresslevel=_LEVEL)
    paths.install(app)
    _with_records(app)
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


def _with_records(app: FastAPI) -> None:
    """Adds to the openapi document what no operation takes as its body: a record, of which a body may have several."""
    plain = app.openapi

    def openapi() -> dict[str, object]:
        if app.openapi_schema is None:
            template = "#/components/schemas/{model}"
            record = NewRecord.model_json_schema(ref_template=template)
            schemas = plain()["components"]["schemas"]
            schemas.update({**record.pop("$defs"), NewRecord.__name__: record})
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]


def _add_page(app: FastAPI, path: str) -> None:
    name, media_type = _PAGES[path]
    content = files("tailrace_gateway.rest").joinpath("static", name).read_bytes()

    async def page() -> Response:
        return Response(content, media_type=media_type, headers=_SECURITY)

    app.add_api_route(path, page, include_in_schema=False)
