"""Byte-rate quotas that hold over the whole cluster: buckets at the gateways, leases from the service. Pure."""
