"""Records of topics as a client reads them: where to begin, what a Fetch answer holds, how a record is shown."""
