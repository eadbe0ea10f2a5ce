"""Metrics: requests of services to rates, counts and percentiles per window, service and operation."""
