"""What compaction did, over HTTP."""
