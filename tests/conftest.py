"""Plugins for all layers: clusters to run against are fixtures (support/plugin.py), and so are certificates."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["support.plugin", "support.tls_certificates"]

# How long an example takes says something about the machine, which is shared, and nothing about the code.
settings.register_profile("tailrace", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tailrace")
