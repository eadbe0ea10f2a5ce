"""PySpark jobs that read and write a cluster as plain Kafka; `tailrace-spark JOB` runs them."""
