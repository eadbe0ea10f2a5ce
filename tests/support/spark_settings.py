"""Settings that spare a test's JVM what pays in long runs only: much of this layer's time went into compiling."""

# A test's JVM lives for seconds to minutes: the quick compiler alone, and no collector with threads of its own.
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

QUICK = {
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": JVM,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",  # some hundred rows: plans are run as they were made
}
