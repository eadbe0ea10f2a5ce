"""Records/s of Spark's Kafka source and sink, through Tailrace's gateway and at Apache Kafka, in one run."""
