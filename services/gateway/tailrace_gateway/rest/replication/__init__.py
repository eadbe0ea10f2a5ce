"""Reassignments and the cluster's status over HTTP."""
