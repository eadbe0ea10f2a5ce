"""What the log needs of a file system: the port, the real one, and one in memory that fails and crashes."""
