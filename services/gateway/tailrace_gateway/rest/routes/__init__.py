"""The HTTP side: one file per kind of resource, each with a router below /v3/clusters/{cluster_id}."""
