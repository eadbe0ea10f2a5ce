"""What Fetch and ListOffsets need beside their handlers: fetch sessions, and lookups that may wait for the disk."""
