"""Requests that wait: for replicas (acks=all), for data (fetch.min.bytes), for records to be given up."""
