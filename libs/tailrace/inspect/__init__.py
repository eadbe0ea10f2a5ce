"""Log directories read from outside, without changing a byte: for dump-log, verify-log and export-kafka."""
