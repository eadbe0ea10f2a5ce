"""The commands that work on files of brokers that do not run: dump-log, verify-log, import-kafka, export-kafka."""
