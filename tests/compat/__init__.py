"""Differential tests: the same scripts against Apache Kafka and against Tailrace."""
