"""The partitions this broker has replicas of, and how their logs come to be open."""
