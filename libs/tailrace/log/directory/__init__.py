"""One log directory (an entry of log.dirs): its partitions, its checkpoints, its disk."""
