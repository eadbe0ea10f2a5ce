"""`tailrace feature`: what kafka-features does: the levels of features, which hold for the whole cluster (KIP-584)."""

from __future__ import annotations

from typing import Annotated

import typer

from tailrace.cli.daily.connection import Bootstrap, pairs
from tailrace.cli.daily.nodes import nodes
from tailrace.cli.daily.output import done, show
from tailrace.wire import messages as m

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="Features and their levels.")
NamedLevels = Annotated[list[str], typer.Argument(help="NAME=LEVEL; all of them change, or none", metavar="NAME=LEVEL")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="say whether it could be done, and do nothing")]
_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
_LEVEL_MAX = (1 << 15) - 1
_SOFTWARE = ("tailrace-cli", "1")


@app.command("list", short_help="Features with their levels.")
def list_features(bootstrap: Bootstrap = None) -> None:
    """The levels that are supported, and the one that each feature has; 0 is off."""
    name, version = _SOFTWARE
    with nodes(bootstrap) as cluster:
        answer = cluster.ask(m.ApiVersionsRequest(client_software_name=name, client_software_version=version), 4)
    levels = {one.name: one.max_version_level for one in answer.finalized_features}
    rows = [
        {
            "name": one.name,
            "lowest": one.min_version,
            "highest": one.max_version,
            "level": levels.get(one.name, 0),
        }
        for one in sorted(answer.supported_features, key=lambda one: str(one.name))
    ]
    show(rows, {"name": "feature", "lowest": "lowest", "highest": "highest", "level": "level"})


@app.command(short_help="Raise features to higher levels.")
def upgrade(levels: NamedLevels, dry_run: DryRun = False, bootstrap: Bootstrap = None) -> None:
    """Raise features to higher levels, when all nodes are of a version that knows them."""
    _update(levels, _UPGRADE, dry_run, bootstrap)


@app.command()
def downgrade(
    levels: NamedLevels,
    unsafe: Annotated[bool, typer.Option("--unsafe", help="also where metadata may be lost")] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Lower features to lower levels, 0 for off."""
    _update(levels, _UNSAFE_DOWNGRADE if unsafe else _SAFE_DOWNGRADE, dry_run, bootstrap)


def _update(levels: list[str], kind: int, dry_run: bool, bootstrap: str | None) -> None:
    asked = {name: _level(name, text) for name, text in pairs(levels).items()}
    with nodes(bootstrap) as cluster:
        update = m.UpdateFeaturesRequest.FeatureUpdateKey
        updates = [update(feature=name, max_version_level=level, upgrade_type=kind) for name, level in asked.items()]
        cluster.ask(m.UpdateFeaturesRequest(timeout_ms=30_000, feature_updates=updates, validate_only=dry_run), 1)
    for name, level in asked.items():
        done(
            f"{name} {'could be' if dry_run else 'is'} at level {level}", name=name, level=level, validate_only=dry_run
        )


def _level(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= _LEVEL_MAX):
        raise typer.BadParameter(f"{name}={text}: expected a level, as 2")
    return int(text)
