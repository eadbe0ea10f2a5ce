"""What Prometheus asks of the admin port."""
