"""`tailrace perf`: what kafka-producer-perf-test, kafka-consumer-perf-test and EndToEndLatency do."""
