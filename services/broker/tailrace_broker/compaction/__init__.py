"""Log compaction as the broker runs it: which log next, in which process."""
