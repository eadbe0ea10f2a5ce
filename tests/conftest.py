"""One plugin for all layers: clusters to run against are fixtures (support/plugin.py)."""

pytest_plugins = ["support.plugin"]
