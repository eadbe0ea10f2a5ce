"""`tailrace-spark demo`: log aggregation on the logs of this machine."""
